# SPDX-License-Identifier: MIT
"""The picture of a comparison: a panel a figure, a bar a malloc, a dot a run."""
import html

import compare

ROW, LEFT, WIDE = 22, 130, 420
STYLE = ("text{font:13px sans-serif;fill:#222}.t{font-weight:600}.b{fill:#7aa6d6}.d{fill:#123}svg{background:#fff}"
         "@media(prefers-color-scheme:dark){text{fill:#eee}.b{fill:#3d6ea5}.d{fill:#cde}svg{background:#181818}}")


def draw(command, verdict, taken, titles):
    """SVG. `taken` has the figures of each run by malloc, `titles` the figures that are drawn."""
    titles = {key: title for key, title in titles.items() if any(one.get(key) for runs in taken.values() for one in runs)}
    height = 60 + len(titles) * (len(taken) * ROW + 40)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{LEFT + WIDE + 90}" height="{height}">',
           f"<title>{html.escape(command)}</title><desc>{html.escape(verdict)}</desc><style>{STYLE}</style>",
           text(10, 22, command if len(command) < 80 else command[:77] + "...", "t"), text(10, 42, verdict)]
    y = 72
    for key, title in titles.items():
        most = max(one.get(key) or 0 for runs in taken.values() for one in runs)
        out.append(text(10, y, title, "t"))
        for name, runs in taken.items():
            y += ROW
            values = [one[key] for one in runs if one.get(key) is not None]
            middle = compare.median(values) or 0
            out.append(text(20, y, name))
            out.append(f'<rect class="b" x="{LEFT}" y="{y - 13}" width="{WIDE * middle / most:.1f}" height="16"/>')
            out += [f'<circle class="d" cx="{LEFT + WIDE * value / most:.1f}" cy="{y - 5}" r="2"/>' for value in values]
            out.append(text(LEFT + WIDE + 8, y, f"{middle:.4g}"))
        y += 40
    return "\n".join(out) + "\n</svg>\n"


def text(x, y, what, kind=""):
    return f'<text x="{x}" y="{y}" class="{kind}">{html.escape(what)}</text>'
