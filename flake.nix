{
  description = "Stook, a slab allocator for user space";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = nixpkgs.lib.genAttrs systems;
    in
    {
      packages = each (system: rec {
        stook = nixpkgs.legacyPackages.${system}.callPackage ./packaging/nix/package.nix { src = self; };
        stook-lean = stook.override { watch = false; };
        default = stook;
      });
      # nix run . -- run --report -- ls
      apps = each (system: {
        default = {
          type = "app";
          program = "${self.packages.${system}.default}/bin/stook";
        };
      });
    };
}
