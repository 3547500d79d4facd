#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# Everyday programs: the same output as without, and Stook served them.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need perl awk tar xz openssl
cd "$STOOK_SOURCE_DIR"

same ls ls ls -lR /usr/include/linux
same sort sort sort --parallel=4 -k2 src/*/*.c include/stook/*.h
same find find find /usr/include -name '*.h' -size +8k
same grep grep grep -rnoP '\bstook_[a-z_]+(?=\()' src include
same bash bash bash -c 'for i in $(seq 300); do a[i]=$(printf "%*s" $i x); done; echo "${a[@]}" | md5sum'
same awk awk awk '{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) print n[w], w | "sort" }' \
    src/*/*.c
same sed sed sed -E 's/([a-z]+)_([a-z]+)/\2_\1/g; $!N; P; D' src/cache/*.c
same tar tar tar --sort=name --mtime=@0 -cf - src include
tar -cf "$work/tree.tar" src include
same xz xz xz -T2 --block-size=65536 -c "$work/tree.tar"
same unxz xz xz -dc "$work/xz.with"
cmp "$work/unxz.with" "$work/tree.tar"
same openssl openssl openssl dgst -sha256 src/*/*.c
openssl genrsa -out "$work/key" 2048 2>/dev/null
same key openssl openssl rsa -in "$work/key" -text -check -traditional
same encrypt openssl openssl enc -aes-256-cbc -pbkdf2 -S 0011223344556677 -pass pass:x -in "$work/tree.tar"
same perl perl perl -e '
    my %h; $h{$_ % 1000} .= "x$_" for 1..100000;
    my @sorted = sort { length $h{$a} <=> length $h{$b} || $a <=> $b } keys %h;
    my $text = join ",", map { "$_=" . substr($h{$_}, 0, 50) } @sorted;
    my $n = () = $text =~ /(\d+)=x\1/g;
    print "$n ", length($text), " ", unpack("%32C*", $text), "\n";
    local $@; eval { die { code => 7, list => [1..100] } }; print $@->{code}, "\n"'
