#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# timeout: 300
"""The page of stook report in a browser: at three widths nothing but what scrolls by itself is wider than the window; on light
and on dark, text has a contrast of 4.5 at least and bars one of 3; tables have their scopes, and pictures a role or none."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tool import STOOK, TESTS, start, stook

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
    } else if (own && e instanceof HTMLElement) {
        found.texts++;
        if (ratio(style.color, behind(e)) < 4.5) found.bad.push([e.textContent, style.color, behind(e)]);
    }
}
found.wide = root.scrollWidth - root.clientWidth;
found.width = innerWidth;
found.dark = matchMedia('(prefers-color-scheme: dark)').matches;
found.heads = [...document.querySelectorAll('table')].every(t => t.querySelectorAll('th[scope=col]').length >= 8 && t.querySelectorAll('th[scope=row]').length > 0);
found.pictures = [...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-hidden') === 'true' || (s.getAttribute('role') === 'img' && s.getAttribute('aria-label')));
document.body.textContent = 'FOUND' + JSON.stringify(found) + 'END';
"""
folder = tempfile.TemporaryDirectory()
page = os.path.join(folder.name, "page.html")
target = start("wait", program=os.path.join(TESTS, "prog_leaks"), LD_PRELOAD=f"{os.path.dirname(os.path.dirname(STOOK))}/lib/libstook-malloc.so",
               STOOK_TAGS="1")
stook("report", "--html", page, target.pid)
target.kill()
with open(page, encoding="utf-8") as file:
    text = file.read()
for needed in ("<dt>read</dt><dd>20", "<dt>host</dt>", "<dt>command line</dt>", "prog_leaks wait", "<dt>running for</dt>", "<dt>units</dt>", "name=\"viewport\""):
    assert needed in text, needed
with open(page, "w", encoding="utf-8") as file:
    file.write(text.replace("</body>", f"<script>{SCRIPT}</script></body>"))
for width in (360, 768, 1280):
    for dark in (False, True):
        # A window of the browser has a least width; a frame has not.
        frame = os.path.join(folder.name, "frame.html")
        with open(frame, "w", encoding="utf-8") as file:
            file.write(f"<body style='margin:0'><iframe src='page.html' style='border:0;width:{width}px;height:900px' onload=\"document.title = "
                       "this.contentDocument.body.textContent; document.body.textContent = document.title\"></iframe>")
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", f"--user-data-dir={folder.name}/profile",
                               f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--window-size=1400,1000", "--dump-dom", f"file://{frame}"],
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
        print(width, "dark" if dark else "light", found["texts"], "texts", found["bars"], "bars")
