#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# timeout: 300
"""The page of stook report in a browser: at three widths nothing but what scrolls by itself is wider than the window; on light
and on dark, text has a contrast of 4.5 at least and bars one of 3; tables have their scopes, and pictures a role or none.  The
flame graph finds what is searched, and zooms, at once: nothing moves.  Names of functions that are HTML and scripts stay names.  axe-core finds no violation, where npm has it."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tool import BUILD, STOOK, TESTS, start, stook

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if not BROWSER:
    print("no chromium")
    sys.exit(77)
# What the browser says of the page, as the page's only text.
SCRIPT = """
const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const parts = c => c.match(/[\\d.]+/g).map(Number);
const light = c => 0.2126 * channel(parts(c)[0]) + 0.7152 * channel(parts(c)[1]) + 0.0722 * channel(parts(c)[2]);
const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (parts(c)[3] !== 0) return c; } return 'rgb(255,255,255)'; };
const root = document.documentElement, found = {texts: 0, bars: 0, drawn: {}, bad: []};
for (const e of document.querySelectorAll('body *')) {
    const style = getComputedStyle(e), own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (e instanceof SVGRectElement) {
        found.bars++;
        found.drawn[style.fill] = (found.drawn[style.fill] || 0) + e.getBoundingClientRect().width;
        if (e.getBoundingClientRect().width > 0 && ratio(style.fill, behind(e)) < 3) found.bad.push(['bar', style.fill, behind(e)]);
    } else if (e instanceof SVGTextElement) {
        found.texts++;
        const bar = getComputedStyle(e.parentElement.querySelector('rect')).fill;
        if (ratio(style.fill, bar) < 4.5) found.bad.push(['text on a bar', style.fill, bar]);
    } else if (own && e.closest('foreignObject')) {
        found.texts++;
        const bar = getComputedStyle(e.closest('g').querySelector('rect')).fill;
        if (ratio(style.color, bar) < 4.5) found.bad.push(['text on a frame', style.color, bar]);
    } else if (own && e instanceof HTMLElement && !e.closest('script')) {
        found.texts++;
        if (ratio(style.color, behind(e)) < 4.5) found.bad.push([e.textContent, style.color, behind(e)]);
    }
}
found.wide = root.scrollWidth - root.clientWidth;
found.width = innerWidth;
found.dark = matchMedia('(prefers-color-scheme: dark)').matches;
found.heads = [...document.querySelectorAll('table')].every(t => t.querySelectorAll('th[scope=col]').length >= 3 && t.querySelectorAll('th[scope=row]').length > 0);
found.pictures = [...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-hidden') === 'true' || (s.getAttribute('role') === 'img' && s.getAttribute('aria-label')));
const frames = () => document.querySelectorAll('#flame g').length, said = () => document.getElementById('flame-said').textContent;
const term = document.getElementById('flame-term');
found.frames = frames();
term.value = 'lose_pages';
term.dispatchEvent(new Event('input'));
found.searched = said();
[...document.querySelectorAll('#flame g')].find(g => g.textContent.includes('lose_pages')).dispatchEvent(new MouseEvent('click', {bubbles: true}));
found.moving = document.getAnimations().length + [...document.querySelectorAll('#flame rect')].filter(r => !(+r.getAttribute('width') > 0)).length;
found.zoomed = [...document.querySelectorAll('#flame g rect')].filter(r => +r.getAttribute('width') > document.getElementById('flame').clientWidth - 2).length;
document.getElementById('flame-all').click();
found.all = frames();
const finish = violations => { found.axe = violations; document.body.textContent = 'FOUND' + JSON.stringify(found) + 'END'; };
if (window.axe) axe.run().then(r => finish(r.violations.map(v => [v.impact, v.id, v.nodes.map(n => n.html.slice(0, 200))]))); else finish(null);
"""


def axe():
    """The accessibility checker, once for the build; empty: npm is not here, or reaches nothing."""
    path = os.path.join(BUILD, "axe")
    script = os.path.join(path, "package/axe.min.js")
    if not os.path.exists(script) and shutil.which("npm"):
        os.makedirs(path, exist_ok=True)
        subprocess.run("timeout 60 npm pack --silent axe-core@4.14.1 && tar xzf axe-core-*.tgz", shell=True, cwd=path, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not os.path.exists(script):
        print("no accessibility checker")
        return ""
    with open(script, encoding="utf-8") as source:
        return source.read()


folder = tempfile.TemporaryDirectory()
page = os.path.join(folder.name, "page.html")
# A program whose functions have other names, as any user may make one: they end no element, and are in the data of the graph.
hostile = {b"lose_string": b"</script>\"'", b"lose_chain": "\u2028<!--\\&z".encode()}
with open(os.path.join(TESTS, "prog_leaks"), "rb") as file:
    code = file.read()
for name, other in hostile.items():
    assert len(name) == len(other) and name in code
    code = code.replace(name, other)
program = os.path.join(folder.name, "prog_leaks")
with open(program, "wb") as file:
    file.write(code)
os.chmod(program, 0o755)
LIBRARIES = f"{os.path.dirname(os.path.dirname(STOOK))}/lib"
target = start("wait", program=program, LD_LIBRARY_PATH=LIBRARIES, LD_PRELOAD=f"{LIBRARIES}/libstook-malloc.so", STOOK_TAGS="1")
stook("report", "--html", page, target.pid)
target.kill()
with open(page, encoding="utf-8") as file:
    text = file.read()
for needed in ("<dt>read</dt><dd>20", "<dt>host</dt>", "<dt>command line</dt>", "prog_leaks wait", "<dt>running for</dt>", "<dt>units</dt>", "name=\"viewport\""):
    assert needed in text, needed
data = json.loads(re.search(r'<script id="flame-data" type="application/json">(.*?)</script>', text, re.S)[1])
frames = [data]
for frame in frames:  # it grows
    frames += frame.get("children", [])
names = "\n".join(frame["name"] for frame in frames)
assert "</script>\"'" in names and "?<!--\\&z" in names and text.count("</script>") == 2, names
with open(page, "w", encoding="utf-8") as file:
    nonce = re.search(r"'nonce-(\w+)'", text)[1]
    checker = axe()
    file.write(text.replace("</body></html>", f"<script nonce={nonce}>{checker}</script><script nonce={nonce}>{SCRIPT}</script></body></html>"))
for width in (360, 768, 1280):
    for dark in (False, True):
        # A window of the browser has a least width; a frame has not.
        frame = os.path.join(folder.name, "frame.html")
        with open(frame, "w", encoding="utf-8") as file:
            file.write(f"<body style='margin:0'><iframe src='page.html' style='border:0;width:{width}px;height:900px'></iframe>" """<script>
                const wait = setInterval(() => {
                    const said = document.querySelector('iframe').contentDocument.body.textContent;
                    if (!said.startsWith('FOUND')) return;
                    clearInterval(wait);
                    document.body.textContent = said;
                }, 50)</script>""")
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", f"--user-data-dir={folder.name}/profile",
                               f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--window-size=1400,1000", "--virtual-time-budget=60000", "--dump-dom", f"file://{frame}"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, timeout=120)
        said = re.search(r"FOUND(\{.*?\})END", done.stdout)
        if not said:
            print("the browser does not run here")
            sys.exit(77)
        found = json.loads(said[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
        assert found["width"] == width and found["dark"] == dark, found
        assert found["wide"] <= 0 and found["bad"] == [] and found["heads"] and found["pictures"], found
        assert found["drawn"]["rgb(47, 110, 168)"] > 50 and found["drawn"]["rgb(47, 144, 104)"] > 50, found  # in use, cached
        assert found["texts"] > 50 and found["bars"] > 10, found
        assert found["frames"] == found["all"] > 5 and found["zoomed"] >= 2 and found["moving"] == 0, found
        assert re.fullmatch(r"\d+ frames, [3-9]\d\d\.\d KiB", found["searched"]), found["searched"]
        assert not found["axe"] and (found["axe"] is None) == (not checker), found["axe"]
        print(width, "dark" if dark else "light", found["texts"], "texts", found["bars"], "bars")
