"use strict";
// Makes the report of one run searchable. Text from the run is only ever set as text: nothing here makes markup of it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  // So many rows are made at once; the next come when they are scrolled to, or asked for.
  const ROWS = 200;

  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const code = (text) => make("code", {}, text);
  const quiet = (text) => make("span", { class: "quiet" }, text);
  const badge = (kind, text) => make("span", { class: `badge ${kind}` }, text);

  // A bar of `width` thousandths that begins at `x` of them.
  const bar = (name, x, width) => {
    const svg = document.createElementNS(SVG, "svg");
    const rect = document.createElementNS(SVG, "rect");
    svg.setAttribute("class", name);
    svg.setAttribute("viewBox", "0 0 1000 10");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    for (const [key, value] of Object.entries({ x, y: 0, width, height: 10 })) rect.setAttribute(key, value);
    svg.append(rect);
    return svg;
  };

  // Rows of a table as they are needed: `show` begins anew.
  const lazily = (body, button, row) => {
    let items = [];
    let made = 0;
    const next = () => {
      const until = Math.min(items.length, made + ROWS);
      const rows = document.createDocumentFragment();
      for (; made < until; made += 1) rows.append(row(items[made]));
      body.append(rows);
      button.hidden = made >= items.length;
      button.textContent = `Show more (${items.length - made} left)`;
    };
    button.addEventListener("click", next);
    new IntersectionObserver((seen) => {
      if (seen.some((one) => one.isIntersecting) && !button.hidden) next();
    }).observe(button);
    return (all) => {
      items = all;
      made = 0;
      body.replaceChildren();
      next();
    };
  };

  // The theme: the system's, or what was chosen.
  const themes = ["system", "light", "dark"];
  const theme = byId("theme");
  const setTheme = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    theme.textContent = `Theme: ${name}`;
  };
  let chosen = "system";
  try {
    const kept = localStorage.getItem("assay-theme");
    if (themes.includes(kept)) chosen = kept;
  } catch { /* A file may have no storage of its own. */ }
  setTheme(chosen);
  theme.hidden = false;
  theme.addEventListener("click", () => {
    chosen = themes[(themes.indexOf(chosen) + 1) % themes.length];
    setTheme(chosen);
    try { localStorage.setItem("assay-theme", chosen); } catch { /* As above. */ }
  });

  // All effects.
  const fields = { q: byId("q"), kind: byId("kind"), op: byId("op"), result: byId("result") };
  const looks = (effect) => effect.o === "read" || effect.o === "list";
  const results = {
    done: (effect) => effect.d === undefined,
    denied: (effect) => effect.d !== undefined,
    unauthorised: (effect) => effect.u === 1,
    protected: (effect) => effect.p === 1,
    outside: (effect) => effect.w === 1,
  };
  const ops = { changed: (effect) => effect.k === "file" && !looks(effect), looked: looks };
  const resultCell = (effect) => {
    const cell = make("td", {});
    if (effect.d !== undefined) cell.append(badge("denied", `denied by ${effect.d}`));
    else if (effect.u) cell.append(badge("unauthorised", "not authorised"));
    else cell.append("done");
    return cell;
  };
  const effectRow = (effect) => {
    const name = make("td", {}, code(effect.n));
    if (effect.t !== undefined) name.append(" → ", code(effect.t));
    if (effect.p) name.append(" ", badge("unauthorised", "protected"));
    if (effect.x !== undefined) name.append(quiet(effect.x));
    const times = make("td", { class: "number" }, effect.h === undefined ? "not told" : String(effect.h));
    return make("tr", {}, make("td", {}, effect.o), name, resultCell(effect), times);
  };
  const showEffects = lazily(byId("rows"), byId("more"), effectRow);
  const texts = data.effects.map((effect) =>
    [effect.n, effect.t ?? "", effect.x ?? ""].join("\n").toLowerCase());
  const isFilter = () => location.hash.includes("=");
  const readFragment = () => {
    const asked = new URLSearchParams(isFilter() ? location.hash.slice(1) : "");
    for (const [key, field] of Object.entries(fields)) {
      field.value = asked.get(key) ?? "";
      // A select that has no such option stays at none of them.
      if (field.selectedIndex === -1) field.selectedIndex = 0;
    }
  };
  const writeFragment = () => {
    const asked = new URLSearchParams();
    for (const [key, field] of Object.entries(fields)) if (field.value !== "") asked.set(key, field.value);
    const fragment = asked.toString();
    if (fragment === "" && !isFilter()) return;
    try { history.replaceState(null, "", `#${fragment === "" ? "effects" : fragment}`); } catch { /* Only the address is missed. */ }
  };
  const applyFilter = () => {
    const words = fields.q.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const [kind, op, result] = [fields.kind.value, fields.op.value, fields.result.value];
    const found = data.effects.filter((effect, at) =>
      (kind === "" || effect.k === kind)
      && (op === "" || (ops[op]?.(effect) ?? effect.o === op))
      && (result === "" || results[result](effect))
      && words.every((word) => texts[at].includes(word)));
    showEffects(found);
    const all = data.effects.length;
    byId("found").textContent = found.length === all ? `${all} effects.` : `${found.length} of ${all} effects.`;
  };
  for (const field of Object.values(fields)) {
    field.addEventListener("input", () => { writeFragment(); applyFilter(); });
  }
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("clear").addEventListener("click", () => {
    for (const field of Object.values(fields)) field.value = "";
    writeFragment();
    applyFilter();
    fields.q.focus();
  });
  const follow = () => {
    if (!isFilter()) return;
    readFragment();
    applyFilter();
    byId("effects").scrollIntoView();
  };
  addEventListener("hashchange", follow);

  // Files as a tree, with how much of each directory was changed and read.
  const directory = () => ({ below: new Map(), write: 0, read: 0, denied: 0, effects: [] });
  const tree = directory();
  const place = (path, effect) => {
    const parts = path.replace(/\/$/, "").split("/");
    if (parts[0] === "") parts[0] = "/";
    let node = tree;
    for (const part of ["", ...parts]) {
      if (part !== "" ) {
        if (!node.below.has(part)) node.below.set(part, directory());
        node = node.below.get(part);
      }
      if (effect.d !== undefined) node.denied += 1;
      else if (looks(effect)) node.read += 1;
      else node.write += 1;
    }
    node.effects.push(effect);
  };
  for (const effect of data.effects) {
    if (effect.k !== "file") continue;
    place(effect.n, effect);
    if (effect.t !== undefined && (effect.o === "rename" || effect.o === "link")) place(effect.t, effect);
  }
  const heat = (count) => (count === 0 ? 0 : Math.max(30, Math.round(1000 * Math.log(1 + count) / Math.log(1 + Math.max(tree.write, tree.read)))));
  const meter = (name, word, count) => {
    const span = make("span", { class: `meter ${name}` });
    if (count > 0) span.append(bar("", 0, heat(count)), `${count} ${word}`);
    return span;
  };
  const nodeLine = (tag, name, node) => {
    const label = make("span", { class: "label" }, code(name));
    if (node.denied > 0) label.append(badge("denied", `${node.denied} denied`));
    const line = make(tag, tag === "summary" ? {} : { class: "leaf" }, label, meter("write", "changed", node.write), meter("read", "read", node.read));
    if (tag !== "summary") {
      const words = [...new Set(node.effects.map((effect) => effect.o))].join(", ");
      label.append(" ", quiet(words));
    }
    return line;
  };
  const order = ([a, one], [b, other]) =>
    (other.write + other.denied > 0) - (one.write + one.denied > 0) || (a < b ? -1 : 1);
  const branch = (name, node, path) => {
    if (node.below.size === 0) return make("li", {}, nodeLine("div", name, node));
    // A directory with nothing but one directory in it is one line with it.
    while (node.below.size === 1 && node.effects.length === 0) {
      const [[next, child]] = node.below;
      if (child.below.size === 0) break;
      name = name === "/" ? `/${next}` : `${name}/${next}`;
      path = path === "/" ? `/${next}` : `${path}/${next}`;
      node = child;
    }
    const folder = make("details", {}, nodeLine("summary", name === "/" ? name : `${name}/`, node));
    folder.addEventListener("toggle", () => {
      if (folder.open && folder.childElementCount === 1) folder.append(children(node, path));
    });
    return make("li", {}, folder);
  };
  const children = (node, path) => {
    const list = make("ul", {});
    if (path !== "" && path !== "/" && node.write + node.read + node.denied > 1) {
      const filter = new URLSearchParams({ q: `${path}/`, kind: "file" });
      list.append(make("li", {}, make("a", { class: "only leaf", href: `#${filter}` }, `search the effects for ${path}/`)));
    }
    const all = [...node.below].sort(order);
    let made = 0;
    const next = () => {
      const some = all.slice(made, made + ROWS);
      made += some.length;
      list.append(...some.map(([name, child]) => branch(name, child, path === "" || name === "/" ? name : path === "/" ? `/${name}` : `${path}/${name}`)));
      if (made < all.length) {
        const button = make("button", { type: "button" }, `Show more (${all.length - made} left)`);
        const item = make("li", {}, button);
        button.addEventListener("click", () => { item.remove(); next(); });
        list.append(item);
      }
    };
    next();
    return list;
  };
  if (tree.below.size > 0) {
    const list = children(tree, "");
    byId("tree").append(list);
    byId("tree").hidden = false;
    // Where something was changed or denied is open to begin with.
    for (const folder of list.querySelectorAll(":scope > li > details")) {
      if (folder.querySelector(".meter.write svg, .denied") !== null) folder.open = true;
    }
  }

  // Processes as a tree over time.
  const processes = data.processes;
  if (processes.length > 0) {
    const below = processes.map(() => []);
    const roots = [];
    processes.forEach((process, at) => (processes[process.up] ? below[process.up] : roots).push(at));
    const depths = [];
    const closed = new Set();
    const end = processes.reduce((last, process) => Math.max(last, process.from ?? 0, process.to ?? 0), 1);
    const visible = () => {
      const told = [];
      const stack = roots.slice().reverse();
      for (const at of roots) depths[at] = 0;
      while (stack.length > 0) {
        const at = stack.pop();
        told.push(at);
        if (closed.has(at)) continue;
        for (const child of below[at].slice().reverse()) {
          depths[child] = depths[at] + 1;
          stack.push(child);
        }
      }
      return told;
    };
    const lasted = ({ from, to }) => {
      if (from === undefined || to === undefined) return "";
      const us = Math.max(0, to - from);
      if (us < 1000) return `${us} µs`;
      if (us < 10000) return `${Math.floor(us / 100) / 10} ms`;
      return us < 10000000 ? `${Math.floor(us / 1000)} ms` : `${Math.floor(us / 1000000)} s`;
    };
    const processRow = (at) => {
      const process = processes[at];
      const program = make("td", { class: `d${Math.min(12, depths[at])}` });
      program.append(make("span", { class: "hidden" }, `level ${depths[at] + 1}: `));
      if (below[at].length > 0) {
        const isOpen = !closed.has(at);
        const fold = make("button", { class: "fold", type: "button", "aria-expanded": String(isOpen), "aria-label": `children of process ${process.pid}` }, isOpen ? "▾" : "▸");
        fold.addEventListener("click", () => {
          if (isOpen) closed.add(at); else closed.delete(at);
          showProcesses(visible());
          byId("process-rows").querySelector(`[aria-label="children of process ${process.pid}"]`)?.focus();
        });
        program.append(fold);
      }
      if (process.ran.length === 0) program.append(quiet("(no program of its own)"));
      process.ran.forEach((words, nth) => {
        if (nth > 0) program.append(quiet(" then "));
        program.append(code(words.length > 300 ? `${words.slice(0, 300)}…` : words));
      });
      const lane = make("td", { class: "lane" });
      if (process.from !== undefined) {
        const x = Math.min(996, Math.floor(1000 * process.from / end));
        lane.append(bar("span", x, Math.max(4, Math.floor(1000 * Math.max(0, (process.to ?? end) - process.from) / end))));
      }
      return make("tr", {}, program, make("td", { class: "number" }, String(process.pid)), make("td", { class: "number" }, lasted(process)), lane, make("td", {}, process.end));
    };
    const button = make("button", { type: "button" });
    byId("process-more").replaceChildren(button);
    const showProcesses = lazily(byId("process-rows"), button, processRow);
    showProcesses(visible());
    if (data.processes_left_out > 0) byId("process-more").append(quiet(`${data.processes_left_out} more are in the evidence.`));
  }

  for (const table of document.querySelectorAll(".static")) table.remove();
  byId("filter").hidden = false;
  byId("listing").hidden = false;
  readFragment();
  applyFilter();
  follow();
})();
