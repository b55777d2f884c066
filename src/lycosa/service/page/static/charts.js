// The charts of the overview: values of the last hour, then what is new every two seconds.
"use strict";

(() => {
  const root = document.querySelector("[data-charts]");
  if (!root) return;
  const boxes = [...root.querySelectorAll(".chart")];
  const most = 1800;
  let columns = [[], [], [], [], []];
  let plots = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // At least five minutes. uPlot takes a thousand days behind a single value.
  const span = (plot, low, high) => {
    const times = plot.data[0], last = times.length < 2 ? times[0] ?? 300 : high;
    return [Math.min(times.length < 2 ? last : low, last - 300), last];
  };

  // A date under the first time would lie over the next one, and an hour needs none.
  const clock = (time) => new Date(time * 1000).toTimeString().slice(0, 8);

  function draw() {
    plots.forEach((plot) => plot.destroy());
    const line = colour("--chart"), grid = { stroke: colour("--grid"), width: 1 }, text = colour("--quiet");
    plots = boxes.map((box) => new uPlot({
      width: Math.max(box.clientWidth, 100),
      height: box.clientHeight,
      legend: { show: false },
      cursor: { show: true },
      scales: { x: { range: span }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ stroke: text, grid, ticks: grid, space: 80, values: (_, times) => times.map(clock) }, { stroke: text, grid, ticks: grid, size: 60 }],
      series: [{}, { stroke: line, width: 2, points: { show: false }, spanGaps: true }],
    }, data(box), box));
  }

  const data = (box) => [columns[0], columns[Number(box.dataset.column)]];

  function show() {
    plots.forEach((plot, at) => plot.setData(data(boxes[at])));
    boxes.forEach((box) => {
      const values = columns[Number(box.dataset.column)], last = values[values.length - 1];
      const name = box.closest("figure").querySelector("figcaption").textContent;
      box.setAttribute("aria-label", name + (last === undefined || last === null ? ": no value yet" : ": now " + last));
    });
  }

  async function follow() {
    try {
      const since = columns[0].length ? columns[0][columns[0].length - 1] : 0;
      const answer = await fetch(root.dataset.charts + "?since=" + since, { headers: { accept: "application/json" } });
      if (answer.ok) {
        const fresh = await answer.json();
        if (fresh[0].length) {
          columns = columns.map((column, at) => column.concat(fresh[at]).slice(-most));
          show();
        }
      }
    } catch { /* the numbers above say that the server does not answer */ }
    setTimeout(follow, document.hidden ? 10000 : 2000);
  }

  draw();
  follow();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { draw(); show(); });
  addEventListener("resize", () => plots.forEach((plot, at) => plot.setSize({ width: Math.max(boxes[at].clientWidth, 100), height: boxes[at].clientHeight })));
})();
