// SPDX-License-Identifier: MIT
// The flame graph of the page of `stook report`: a click zooms, the field searches.  build.sh makes flame.min.js of it.
import flamegraph from "d3-flame-graph";
import { select, selection } from "d3-selection";

const byId = (id) => document.getElementById(id);
const root = JSON.parse(byId("flame-data").textContent);
const place = byId("flame");
const said = byId("flame-said");

function size(bytes) {
    let unit = 0;
    for (; bytes >= 1024 && unit < 5; unit++) bytes /= 1024;
    return unit ? `${bytes.toFixed(1)} ${"KMGTP"[unit - 1]}iB` : `${bytes} bytes`;
}

function label(frame) {
    const part = ((100 * frame.data.value) / root.value).toFixed(1);
    return `${frame.data.name}: ${size(frame.data.value)} in ${frame.data.objects} objects, ${part}%`;
}

// Warm colours by name, so that a function looks the same everywhere; black text has a contrast of 4.5 on them.
function colour(frame) {
    let hash = 0;
    for (const letter of frame.data.name.split(/[+ ]/)[0]) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
    return frame.highlight ? "#c9a6ff" : `hsl(${12 + (hash % 14)},70%,55%)`;
}

// Nothing moves: what has transitions (new frames have one of 250 ms of their own) is drawn at once.
for (const step of ["transition", "delay", "duration", "ease"]) selection.prototype[step] = function () { return this; };

let chart;
function draw() {
    place.replaceChildren();
    chart = flamegraph().width(place.clientWidth).inverted(true).minFrameSize(1);
    chart.label(label).setColorMapper(colour).onClick((frame) => (said.textContent = label(frame)));
    chart.setSearchHandler((found, sum) => (said.textContent = `${found.length} frames, ${size(sum)}`));
    select(place).datum(root).call(chart);
    select(place).select("svg").attr("role", "img").attr("aria-label", "call sites by bytes in use");
}

function search() {
    const term = byId("flame-term").value;
    said.textContent = "";
    if (term) chart.search(term);
    else chart.clear();
}

byId("flame-find").hidden = false;
byId("flame-term").addEventListener("input", search);
byId("flame-all").addEventListener("click", () => {
    byId("flame-term").value = said.textContent = "";
    chart.clear();
    chart.resetZoom();
});
let width = place.clientWidth;
draw();
new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    draw();
    search();
}).observe(place);
