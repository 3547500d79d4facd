# SPDX-License-Identifier: MIT
"""The picture of memory over time: a panel a case, a line a malloc, its name at the line's end."""
import html

import picture

WIDE, HIGH, LEFT, LABELS, GAP, LINE = 520, 220, 56, 130, 74, 15
STYLE = picture.STYLE + (".l{fill:none;stroke:#9aa7b4;stroke-width:1.2}.a{stroke:#ccd3da}.s{stroke:#1767c0;stroke-width:2.6}"
                              "@media(prefers-color-scheme:dark){.l{stroke:#8a97a4}.a{stroke:#3a444e}.s{stroke:#5fb0ff}}")
PALETTE = ("#b2561a", "#2d8a4e", "#8d4bb0", "#a8324a", "#7a6a00", "#00808a", "#777", "#c24d9b")


def ladder(most):
    """Round values from 0 to `most`, five to ten of them."""
    step = 1.0
    while step * 10 < most:
        step *= 10
    while most / step < 5:
        step /= 2
    return [i * step for i in range(int(most / step) + 1)]


def spread(heights, bottom):
    """Heights in ascending order, at least LINE apart and none below `bottom`."""
    placed = []
    for y in heights:
        placed.append(max([y] + [above + LINE for above in placed[-1:]]))
    for i in range(len(placed) - 1, -1, -1):
        bottom = placed[i] = min(placed[i], bottom)
        bottom -= LINE
    return placed


def panel(top, title, xs, unit, lines):
    """`lines` has the values at `xs` by malloc; these stand at equal distances."""
    most, last = max(max(values) for values in lines.values()) * 1.05, len(xs) - 1 or 1
    out, ends = [picture.text(10, top - 12, title, "t")], []
    for value in ladder(most):
        y = top + HIGH * (1 - value / most)
        out.append(f'<line class="a" x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(picture.text(8, round(y + 4, 1), f"{value:g}"))
    for i, (name, values) in enumerate(sorted(lines.items(), key=lambda line: line[0] == "stook")):
        points = [(LEFT + WIDE * k / last, top + HIGH * (1 - value / most)) for k, value in enumerate(values)]
        where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        style = ' class="l s"' if name == "stook" else f' class="l" style="stroke:{PALETTE[i % len(PALETTE)]}"'
        out.append(f'<polyline{style} points="{where}"><title>{html.escape(name)}</title></polyline>')
        ends.append((points[-1][1] + 4, name, PALETTE[i % len(PALETTE)], points[-1][0]))
    ends.sort()
    for y, (_, name, colour, x) in zip(spread([end[0] for end in ends], top + HIGH), ends):
        paint = "t" if name == "stook" else '" style="fill:' + colour
        out.append(picture.text(round(x + 8, 1), round(y, 1), name, paint))
    for k in range(0, len(xs), len(xs) // 8 + 1):
        out.append(picture.text(round(LEFT + WIDE * k / last - 4, 1), top + HIGH + 18, f"{xs[k]:g}"))
    out.append(picture.text(LEFT + WIDE + 30, top + HIGH + 18, unit))
    return out


def draw(records):
    """SVG of records of stook-bench long: hours of the cases that have them, seconds of bursts."""
    cases = {}
    for record in records:
        cases.setdefault(record["program"], []).append(record)
    panels = []
    for program, those in cases.items():
        if "resident_mib" in those[0]:
            panels.append((f"{program}: MiB after the last free", those[0]["seconds"], "seconds",
                           {one["allocator"]: one["resident_mib"] for one in those}))
        elif len(those[0]["hours"]) > 1:
            panels.append((f"{program}: resident over live", list(range(1, len(those[0]["hours"]) + 1)), "hours",
                           {one["allocator"]: one["hours"] for one in those}))
    height = 40 + len(panels) * (HIGH + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{LEFT + WIDE + LABELS}" height="{height}">',
           f"<title>Memory over time</title><desc>{html.escape(', '.join(one[0] for one in panels))}</desc><style>{STYLE}</style>"]
    for i, one in enumerate(panels):
        out += panel(48 + i * (HIGH + GAP), *one)
    return "\n".join(out) + "\n</svg>\n"
