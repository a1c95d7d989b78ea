"use strict";
(() => {
  const data = JSON.parse(document.getElementById("document").textContent);
  const report = data.compile;
  const SVG = "http://www.w3.org/2000/svg";
  const by = (id) => document.getElementById(id);
  const el = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const draw = (name, attributes = {}, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const number = (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const size = (bytes) => bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1048576).toFixed(2)} MiB`;
  const decimal = (bytes) => bytes < 1e3 ? `${bytes} B` : bytes < 1e6 ? `${bytes / 1e3} kB` : `${bytes / 1e6} MB`;
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
  const table = (headings, rows, right) => {
    const cells = (kind, row) => el("tr", {}, ...row.map((cell, i) => el(kind, { class: right.includes(i) ? "n" : i === row.length - 1 ? "name" : "", "data-head": headings[i] }, cell)));
    return el("table", { class: "cards" }, el("thead", {}, cells("th", headings)), el("tbody", {}, ...rows.map((row) => cells("td", row))));
  };
  const room = () => Math.max(280, Math.min(900, by("costs").clientWidth)); // for a drawing, in pixels; folded parts have no width
  const narrow = room() < 640;
  // Long names differ at both ends: the middle goes, and the whole name is what the pointer shows.
  const middle = (text, most = narrow ? 36 : 72) => text.length <= most ? text : `${text.slice(0, Math.ceil(most * .6) - 1)}\u2026${text.slice(-Math.floor(most * .4))}`;
  const name = (text) => el("span", { title: text }, middle(text));
  const ends = (pair, digits) => pair[0].toFixed(digits) === pair[1].toFixed(digits) ? pair[0].toFixed(digits) : `${pair[0].toFixed(digits)} to ${pair[1].toFixed(digits)}`;
  const span = (pair, digits) => `${ends(pair.map((us) => us / 1000), digits)} ms`; // of microseconds
  const reasons = new Map(report.rejections.map((r) => [r.node, r]));

  const header = () => {
    document.title = `Compile report: ${data.title}`;
    by("title").textContent = data.title;
    const cycles = report.partitions.reduce((sum, p) => sum + p.estimate.cycles, 0), whole = report.inference;
    const rates = Object.entries(whole.frames_per_second).map(([count, rate]) => `${number(rate)} per second with ${plural(Number(count), "interpreter")}`);
    const drivers = Object.entries(whole.by_driver).map(([name, found]) => `${name} at ${ends(found.clock_mhz, 0)} MHz: ${span(found.range_us, 2)}`);
    by("headline").textContent = `${span(whole.range_us, 2)} per inference, modelled`;
    by("drivers").append(...drivers.map((text) => el("li", {}, text)), el("li", {}, `in the middle ${rates.join(", ")}`));
    by("headline").dataset.totalUs = whole.total_us;
    const missing = whole.unmodelled.length ? ` Not in it: ${whole.unmodelled.join(", ")}.` : "";
    by("summary").textContent = `${report.delegated_nodes} of ${plural(report.total_nodes, "node")} on the NPU in ${plural(report.partitions.length, "partition")}, ${plural(report.costs.tasks, "task")}: ${number(cycles)} cycles, ${(cycles / 1e6).toFixed(2)} ms at 1 GHz; ${(whole.cpu_us / 1000).toFixed(2)} ms of the CPU's nodes on one thread (${whole.cpu}), which alone would take ${(whole.cpu_alone_us / 1000).toFixed(2)} ms.${missing} Nothing here was measured on this model.`;
    by("summary").dataset.cycles = cycles;
  };

  const dominates = () => {
    const whole = report.inference;
    const limited = report.costs.npu_limited_us + report.costs.ddr_limited_us;
    const parts = [["npu", `Tasks (${percent(report.costs.npu_limited_us / Math.max(limited, 1e-9))} of their cycles in layers limited by arithmetic)`, "npu_us"], ["launch", `Launching ${plural(report.costs.tasks, "task")}`, "launches_us"], ["launch", plural(report.costs.submits, "submit"), "submits_us"], ["launch", "Converting inputs and outputs", "conversion_us"], ["cpu", "Nodes left to the CPU", "cpu_us"]];
    const most = Math.max(...parts.map((p) => whole.ranges[p[2]][1]), 1e-9);
    const bars = el("div", { class: "bars" });
    for (const [kind, name, part] of parts) {
      const bar = el("div", { class: `bar ${kind}` });
      bar.style.width = `${100 * whole.ranges[part][1] / most}%`;
      bars.append(el("span", {}, name), bar, el("span", {}, span(whole.ranges[part], 3)));
    }
    by("costs").append(bars);
    if (whole.measured_by_others.length) by("costs").append(el("h3", {}, "Measured by others, of the same network"), el("div", { class: "scroll" }, table(["ms", "chip", "how", "who", "network"], whole.measured_by_others.map((m) => [ends(m.ms, 1), m.chip, m.conditions, m.source, m.network]), [0])));
    const best = report.best_change; // as compile prints it
    by("costs").append(el("p", { class: "advice" }, best
      ? `What helps most: ${best.change} (at most ${(best.at_most_us / 1000).toFixed(2)} ms)`
      : "No change of the export would save much."));
    if (report.suggestions.length) by("costs").append(el("h3", {}, "If these operators ran on the NPU"), el("div", { class: "scroll" }, table(["ms at most", "partitions", "delegated nodes", "operators"], report.suggestions.map((s) => [(s.at_most_us / 1000).toFixed(3), String(s.partitions), String(s.nodes), s.ops.join(", ")]), [0, 1, 2])));
    by("costs").append(el("h3", {}, "Largest layers"), el("div", { class: "scroll" }, table(["cycles", "share", "partition", "layer"], report.costs.largest_layers.map((l) => [number(l.cycles), percent(l.share), String(l.partition), name(l.name)]), [0, 1, 2])));
  };

  const unfolded_label = (n) => `${n.node} ${n.op.replace("DEPTHWISE_CONV", "DW_CONV")}`;
  const unfolded = () => data.graph.map((n) => ({ ...n, label: unfolded_label(n), members: [n] }));

  // Neighbours in execution order that run in one place, as one group each.
  const together = () => {
    const groups = [];
    for (const n of data.graph) {
      const last = groups[groups.length - 1];
      if (last !== undefined && last[0].partition === n.partition) last.push(n);
      else groups.push([n]);
    }
    return groups.map((members) => ({ members, label: members[0].partition === null ? `CPU: ${plural(members.length, "node")}` : `NPU ${members[0].partition}: ${plural(members.length, "node")}` }));
  };

  // Blocks that follow each other several times, as one group each.
  const repeats = () => data.blocks.map(([first, length, times]) => {
    const members = data.graph.slice(first, first + length * times);
    return { members, label: times === 1 ? unfolded_label(members[0]) : `${times} times ${length === 1 ? members[0].op : plural(length, "node")}` };
  });

  const folded = (groups) => {
    const box_of = new Map(), boxes = groups.map(({ members, label }) => ({ node: members[0].node, partition: members[0].partition, members, label }));
    for (const box of boxes) for (const n of box.members) box_of.set(n.node, box);
    for (const box of boxes) {
      box.inputs = [...new Set(box.members.flatMap((n) => n.inputs.map((i) => box_of.get(i).node)))].filter((i) => i !== box.node);
      const ops = new Map();
      for (const n of box.members) ops.set(n.op, (ops.get(n.op) ?? 0) + 1);
      box.op = [...ops].sort((a, b) => b[1] - a[1]).map(([op, count]) => `${count} ${op}`).join(", ");
      box.name = box.members[0].name; box.shape = box.members[box.members.length - 1].shape;
    }
    return boxes;
  };

  // Levels from top to bottom, in columns side by side about as high as wide.
  const layout = (nodes) => {
    const depth = new Map(), rows = [], place = new Map();
    for (const n of nodes) {
      const level = Math.max(-1, ...n.inputs.map((i) => depth.get(i) ?? -1)) + 1;
      depth.set(n.node, level);
      (rows[level] ??= []).push(n);
    }
    const W = 158, H = 30, GAP_X = 14, GAP_Y = 22, BETWEEN = 40;
    const columns = new Map();
    for (const row of rows) {
      // A node stands below the mean of its inputs where that column is free, else beside it.
      const taken = new Set();
      for (const n of row) {
        const known = n.inputs.map((i) => columns.get(i) ?? 0);
        let want = known.length ? Math.round(known.reduce((a, b) => a + b, 0) / known.length) : 0;
        for (let step = 0; taken.has(want); step++) want += step % 2 ? -step : step;
        if (want < 0) { want = 0; while (taken.has(want)) want++; }
        taken.add(want);
        columns.set(n.node, want);
      }
    }
    const per = Math.max(12, Math.ceil(Math.sqrt(rows.length * (W + GAP_X) * 2 / (H + GAP_Y))));
    let left = GAP_X, width = 0;
    for (let first = 0; first < rows.length; first += per) {
      const part = rows.slice(first, first + per);
      const used = part.flat().map((n) => columns.get(n.node)), least = Math.min(...used);
      part.forEach((row, i) => row.forEach((n) => place.set(n.node, [left + (columns.get(n.node) - least) * (W + GAP_X), GAP_Y + i * (H + GAP_Y)])));
      width = left + (Math.max(...used) - least + 1) * (W + GAP_X);
      left = width + BETWEEN;
    }
    return { place, W, H, width, height: Math.min(rows.length, per) * (H + GAP_Y) + GAP_Y };
  };

  const graph = () => {
    let zoom = 1, svg = null, size_of = null, chosen = null, drawn = [];
    const crossings = data.graph.flatMap((n) => n.inputs.filter((i) => data.graph.find((m) => m.node === i).partition !== n.partition)).length;
    const show = (value) => {
      zoom = Math.min(Math.max(value, .1), 3);
      svg.setAttribute("width", size_of.width * zoom); svg.setAttribute("height", size_of.height * zoom);
    };
    const paint = () => {
      const nodes = by("graph-fold").checked ? folded(together()) : by("graph-repeats").checked ? folded(repeats()) : unfolded(), partition = new Map(nodes.map((n) => [n.node, n.partition]));
      size_of = layout(nodes);
      const { place, W, H, width, height } = size_of;
      svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Graph of the model" });
      for (const n of nodes) for (const i of n.inputs) {
        const [x1, y1] = place.get(i), [x2, y2] = place.get(n.node), crossing = partition.get(i) !== n.partition;
        const beside = y2 <= y1, a = beside ? x1 + W : x1 + W / 2, t = beside ? y1 + H / 2 : y1 + H, b = beside ? x2 : x2 + W / 2, u = beside ? y2 + H / 2 : y2, m = beside ? 30 : Math.min(40, (y2 - t) / 2);
        svg.append(draw("path", { class: crossing ? "edge crossing" : "edge", d: beside ? `M${a} ${t}C${a + m} ${t} ${b - m} ${u} ${b} ${u}` : `M${a} ${t}C${a} ${t + m} ${b} ${u - m} ${b} ${u}` }));
      }
      drawn = nodes.map((n) => {
        const [x, y] = place.get(n.node), on = n.partition !== null;
        const g = draw("g", { class: `node ${on ? "on" : "off"}`, tabindex: 0, "data-node": n.node });
        g.append(draw("rect", { x, y, width: W, height: H }), draw("text", { x: x + 8, y: y + 19 }, n.label.length > 20 ? `${n.label.slice(0, 19)}\u2026` : n.label));
        const choose = () => {
          chosen?.classList.remove("chosen"); chosen = g; g.classList.add("chosen");
          const r = n.members.length === 1 ? reasons.get(n.node) : undefined;
          const what = n.members.length === 1 ? `Node ${n.node}, ${n.op}, ${n.name}, [${n.shape.join(", ")}]: ` : `Nodes ${n.node} to ${n.members[n.members.length - 1].node}: ${n.op}. `;
          by("graph-detail").textContent = what + (on ? `NPU, partition ${n.partition}.` : r ? `CPU. ${r.rule}: ${r.detail}` : "CPU.");
        };
        g.addEventListener("click", choose); g.addEventListener("focus", choose);
        svg.append(g);
        return [n, g];
      });
      by("graph-view").replaceChildren(svg);
      show(zoom); search();
    };
    const search = () => {
      const text = by("graph-search").value.trim().toLowerCase();
      const fits = (n) => n.members.some((m) => `${m.node} ${m.op} ${m.name}`.toLowerCase().includes(text));
      let first = null, count = 0;
      for (const [n, g] of drawn) {
        const hit = text !== "" && fits(n);
        g.classList.toggle("hit", hit); g.classList.toggle("miss", text !== "" && !hit);
        if (hit) { count++; first ??= g; }
      }
      by("graph-found").textContent = text === "" ? "" : `${number(count)} found`;
      first?.scrollIntoView?.({ block: "nearest", inline: "center" });
    };
    by("graph-search").addEventListener("input", search);
    for (const name of ["graph-fold", "graph-repeats"]) by(name).addEventListener("change", paint);
    by("graph-more").addEventListener("click", () => show(zoom * 1.4));
    by("graph-less").addEventListener("click", () => show(zoom / 1.4));
    by("graph-fit").addEventListener("click", () => show(Math.min(by("graph-view").clientWidth / size_of.width, 1)));
    paint();
    const key = (name, colour, text) => { const i = el("i"); i.style.background = colour; return el("span", {}, i, `${text}: ${name}`); };
    by("graph-legend").append(key(report.delegated_nodes, "var(--npu-soft)", "on the NPU"), key(report.total_nodes - report.delegated_nodes, "var(--cpu-soft)", "left to the CPU"), key(crossings, "var(--ddr)", "tensors that cross"));
  };

  const tiles = (list) => {
    const box = el("div");
    const rows = Math.max(...list.map((t) => t.row + t.rows)), banks = data.hardware.cbuf_banks;
    const BETWEEN = narrow ? 8 : 24;
    const H = 16, LEFT = narrow ? 62 : 96, STRIP = narrow ? 106 : 420, BANK = narrow ? 8 : 13;
    const width = LEFT + STRIP + BETWEEN + banks * BANK + (narrow ? 0 : 150);
    const svg = draw("svg", { width, height: list.length * (H + 3) + 26, viewBox: `0 0 ${width} ${list.length * (H + 3) + 26}` });
    svg.append(draw("text", { x: LEFT, y: 12, class: "soft" }, narrow ? `rows 0 to ${rows - 1}` : `output rows 0 to ${rows - 1}`), draw("text", { x: LEFT + STRIP + BETWEEN, y: 12, class: "soft" }, narrow ? `${banks} banks` : `${banks} banks: data, weights`));
    list.forEach((t, i) => {
      const y = 20 + i * (H + 3), x = LEFT + STRIP * t.row / rows;
      const w = Math.max(STRIP * t.rows / rows, 2);
      svg.append(draw("text", { x: 0, y: y + 12 }, `${t.row}\u2013${t.row + t.rows - 1}`));
      svg.append(draw("rect", { x: LEFT, y, width: STRIP, height: H, fill: "var(--page)" }));
      const limit = t.npu_cycles >= t.ddr_cycles ? "npu" : "ddr";
      svg.append(draw("rect", { x, y, width: w, height: H, rx: 2, fill: `var(--${limit})` }));
      if (t.data_banks === undefined) return;
      for (let b = 0; b < banks; b++) {
        const fill = b < t.data_banks ? "var(--npu)" : b < t.data_banks + t.weight_banks ? "var(--ddr)" : "var(--cpu-soft)";
        svg.append(draw("rect", { x: LEFT + STRIP + BETWEEN + b * BANK, y, width: BANK - 2, height: H, rx: 2, fill, opacity: t.weight_reuse && b >= t.data_banks ? .45 : 1 }));
      }
      if (!narrow) svg.append(draw("text", { x: LEFT + STRIP + BETWEEN + 10 + banks * BANK, y: y + 12, class: "soft" }, `${t.data_banks} + ${t.weight_banks}${t.weight_reuse ? ", weights kept" : ""}`));
    });
    box.append(el("div", { class: "scroll" }, svg));
    return box;
  };

  const layers = () => {
    report.partitions.forEach((p, number_of) => {
      const box = el("details", { class: "partition" }, el("summary", {}, el("span", {}, `Partition ${number_of}: ${plural(p.nodes.length, "node")}, ${plural(p.layers.length, "layer")}, ${plural(p.tasks, "task")}`), el("span", { class: "facts" }, `${number(p.estimate.cycles)} cycles \u00b7 ${size(p.estimate.bytes)} moved \u00b7 ${size(p.buffers_bytes)} of memory`)));
      box.dataset.cycles = p.estimate.cycles;
      box.addEventListener("toggle", () => {
        if (box.childElementCount > 1) return;
        p.layers.forEach((layer, i) => {
          const chip = el("span", { class: `chip ${layer.limit}` }, layer.limit === "npu" ? "arithmetic" : "memory");
          const row = el("details", { class: "layer" }, el("summary", {}, el("span", {}, chip, name(layer.name)), el("span", { class: "facts" }, `${number(layer.cycles)} cycles \u00b7 ${size(layer.bytes)} \u00b7 ${plural(layer.tasks, "task")}`)));
          row.addEventListener("toggle", () => {
            if (row.childElementCount > 1) return;
            if (layer.tiling) row.append(el("p", { class: "detail" }, `Tiling: ${layer.tiling}`));
            if (layer.difference) row.append(el("p", { class: "detail" }, `One task for nodes ${layer.nodes.join(", ")}: at most ${layer.difference.most_lsb} LSB from TensorFlow Lite, ${(100 * layer.difference.share).toFixed(1)} % of the results differ by model`));
            row.append(tiles(data.tiles[number_of][i]));
          });
          box.append(row);
        });
      });
      by("layer-view").append(box);
    });
    if (!report.partitions.length) by("layer-view").append("No node of this model runs on the NPU.");
  };

  const roofline = () => {
    const points = report.partitions.flatMap((p, i) => p.layers.map((l) => ({ ...l, partition: i })));
    if (!points.length) return;
    const W = room(), H = 420, L = 64, B = 40, log = Math.log10;
    const xs = points.map((p) => log(Math.max(p.bytes, 1))), ys = points.map((p) => log(Math.max(p.npu_cycles, p.ddr_cycles, 1)));
    const lows = points.map((p) => log(Math.max(p.npu_cycles, 1))).filter((v) => v > 0);
    const x0 = Math.floor(Math.min(...xs)), x1 = Math.ceil(Math.max(...xs) + .01), y0 = Math.floor(Math.min(...ys, ...lows)), y1 = Math.ceil(Math.max(...ys) + .01);
    const X = (v) => L + (v - x0) / (x1 - x0) * (W - L - 40), Y = (v) => H - B - (v - y0) / (y1 - y0) * (H - B - 16);
    const svg = draw("svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}` });
    for (let v = x0; v <= x1; v++) svg.append(draw("line", { x1: X(v), x2: X(v), y1: 16, y2: H - B, stroke: "var(--line)" }), draw("text", { x: X(v), y: H - B + 16, "text-anchor": "middle" }, decimal(10 ** v)));
    for (let v = y0; v <= y1; v++) svg.append(draw("line", { x1: L, x2: W - 40, y1: Y(v), y2: Y(v), stroke: "var(--line)" }), draw("text", { x: L - 6, y: Y(v) + 4, "text-anchor": "end" }, number(10 ** v)));
    const rate = log(data.hardware.bytes_per_cycle);
    const from = Math.max(x0, y0 + rate), to = Math.min(x1, y1 + rate);
    if (to > from) svg.append(draw("line", { x1: X(from), x2: X(to), y1: Y(from - rate), y2: Y(to - rate), stroke: "var(--ddr)", "stroke-width": 2 }));
    svg.append(draw("text", { x: (W + L) / 2, y: H - 6, "text-anchor": "middle", class: "soft" }, "bytes moved"), draw("text", { x: L, y: 12, class: "soft" }, "cycles of the arithmetic"));
    for (const p of points) {
      const y = Y(Math.max(log(Math.max(p.npu_cycles, 1)), y0));
      const dot = draw("circle", { cx: X(log(Math.max(p.bytes, 1))), cy: y, r: 5, fill: `var(--${p.limit})`, opacity: .75, tabindex: 0 });
      const show = () => { by("roof-detail").textContent = `Partition ${p.partition}, ${p.name}: ${number(p.npu_cycles)} cycles of arithmetic, ${number(p.ddr_cycles)} of memory, ${size(p.bytes)}.`; };
      dot.addEventListener("click", show); dot.addEventListener("focus", show); dot.addEventListener("mouseenter", show);
      svg.append(dot);
    }
    by("roof-view").append(svg);
  };

  const memory = () => {
    const drawn = data.memory.map((plan, i) => [plan, i]).filter(([plan]) => plan.length);
    if (!drawn.length) { by("memory-view").append("No partition keeps results between its layers."); return; }
    for (const [plan, i] of drawn) {
      const layers_of = report.partitions[i].layers.length, top = report.partitions[i].buffers.scratch;
      const W = room(), H = Math.max(80, Math.min(280, plan.length * 14)), L = 76, B = 22;
      const X = (v) => L + v / layers_of * (W - L - 10), Y = (v) => H - B - v / top * (H - B - 14);
      const svg = draw("svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}` });
      svg.append(draw("path", { class: "axis", d: `M${L} 14V${H - B}H${W - 10}` }), draw("text", { x: L - 6, y: 20, "text-anchor": "end" }, size(top)), draw("text", { x: L - 6, y: H - B, "text-anchor": "end" }, "0"), draw("text", { x: L, y: H - 6, class: "soft" }, "layer 0"), draw("text", { x: W - 10, y: H - 6, "text-anchor": "end", class: "soft" }, `layer ${layers_of - 1}`));
      for (const t of plan) {
        const bar = draw("rect", { x: X(t.layer), y: Y(t.offset + t.bytes), width: Math.max(X(t.last + 1) - X(t.layer) - 1, 1), height: Math.max(Y(t.offset) - Y(t.offset + t.bytes), 1), fill: "var(--npu)", stroke: "var(--card)", opacity: .7, tabindex: 0 });
        const show = () => { by("memory-detail").textContent = `${t.name}: ${size(t.bytes)} at ${number(t.offset)}, layers ${t.layer} to ${t.last}.`; };
        bar.addEventListener("click", show); bar.addEventListener("focus", show); bar.addEventListener("mouseenter", show);
        svg.append(bar);
      }
      const box = el("details", {}, el("summary", {}, el("span", {}, `Partition ${i}`), el("span", { class: "facts" }, `${size(top)} of scratch \u00b7 ${plural(plan.length, "result")}`)), el("div", { class: "scroll" }, svg));
      if (i === drawn[0][1]) box.open = true;
      by("memory-view").append(box);
    }
  };

  const forms = () => {
    if (!report.forms.length) { by("form-view").append("Nothing: there is no program."); return; }
    const who = { mesa: "Mesa's driver", vendor: "the vendor's compiler", others: "others, on a board" };
    const ran = (f) => f.evidence === "whole" ? who[f.ran] : f.evidence === "parts" ? "each setting, not all together" : `nobody: ${f.unknown.join(", ")}`;
    const found = table(["tasks", "run by", "form", "kind", "what it does"], report.forms.map((f) => [number(f.tasks), ran(f), f.form, f.kind, f.words]), [0]);
    found.className = "stacked";
    by("form-view").append(found);
  };

  const cpu = () => {
    if (!report.rejections.length) { by("rejections").append("Nothing: the whole model runs on the NPU."); return; }
    for (const group of report.left_to_cpu) {
      const of = report.rejections.filter((r) => r.op === group.op && r.rule === group.rule);
      const box = el("details", { class: "left" }, el("summary", {}, el("span", {}, `${plural(group.nodes.length, group.op)}: ${group.rule}`), el("span", { class: "facts" }, `${(group.cpu_us / 1000).toFixed(3)} ms`)), ...group.reasons.map((reason) => el("p", { class: "detail" }, reason, ` (nodes ${of.filter((r) => r.detail === reason).map((r) => r.node).join(", ")})`)));
      by("rejections").append(box);
    }
  };

  for (const part of [header, dominates, graph, layers, roofline, memory, forms, cpu]) part();
  document.querySelector('nav [href="#developers"]').addEventListener("click", () => { by("developers-fold").open = true; });
  document.documentElement.dataset.readyMs = performance.now();
})();
