// The console's own script: theme, keys, charts, and the SQL editor. Everything else is htmx.
"use strict";

const token = document.body.dataset.formToken;
document.body.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.verb !== "get") event.detail.headers["X-Form-Token"] = token;
});
// Nothing is polled for a page that nobody sees.
document.body.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.detail.requestConfig.triggeringEvent?.type !== "submit"
      && event.detail.requestConfig.verb === "get" && !event.detail.requestConfig.triggeringEvent) {
    event.preventDefault();
  }
});

// ---- theme

const isDark = () => (document.documentElement.dataset.theme
  || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
document.querySelector("[data-theme-switch]")?.addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  for (const chart of charts.values()) chart.forget();
  drawCharts();
});

// ---- keys

const help = document.getElementById("help");
document.querySelector("[data-help]")?.addEventListener("click", () => help.showModal());
let waitsForPage = false;
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (waitsForPage) {
    waitsForPage = false;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
  } else if (event.key === "g") {
    waitsForPage = true;
    setTimeout(() => { waitsForPage = false; }, 1500);
  } else if (event.key === "/") {
    const search = document.querySelector("[data-search], input[type=search]");
    event.preventDefault();
    if (search) search.focus(); else location.href = "/tables";
  } else if (event.key === "?") {
    help.showModal();
  }
});

// ---- acts that ask before they are done

document.body.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});

// ---- charts

const shown = (value, unit) => {
  if (value === null || value === undefined) return "–";
  if (unit.startsWith("bytes")) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let at = 0;
    while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
    return `${+value.toPrecision(3)} ${units[at]}`;
  }
  if (unit === "seconds") return value >= 1 ? `${+value.toPrecision(3)} s` : `${+(value * 1000).toPrecision(3)} ms`;
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`;
  if (value >= 1e4) return `${+(value / 1e3).toPrecision(3)} k`;
  return `${+value.toPrecision(4)}`;
};
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class Chart {
  constructor(figure) {
    this.place = figure.querySelector(".plot");
    this.unit = figure.dataset.unit || "";
    this.plot = null;
    this.labels = "";
    this.last = null;
  }
  forget() {
    this.plot?.destroy();
    this.plot = null;
  }
  draw(found) {
    this.last = found;
    if (!found.columns[0] || found.columns[0].length < 2) {
      if (!this.place.firstChild) {
        const note = document.createElement("p");
        note.className = "empty";
        note.textContent = "Collecting …";
        this.place.append(note);
      }
      return;
    }
    const labels = found.labels.join("\n");
    if (this.plot && labels === this.labels) return void this.plot.setData(found.columns);
    this.forget();
    this.labels = labels;
    this.place.replaceChildren();
    this.plot = new uPlot(this.options(found), found.columns, this.place);
  }
  options(found) {
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    return {
      width: this.place.clientWidth, height: found.labels.length > 1 ? 160 : 184, cursor: { points: { size: 6 } },
      scales: { x: { time: found.time !== false }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.12 : 1] } },
      axes: [{ ...axis, space: 80, ...(found.time === false ? {} : { values: (_, ticks) => ticks.map(clock) }) }, { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => shown(tick, this.unit)) }],
      legend: { show: found.labels.length > 1 },
      series: [{}, ...found.labels.map((label, at) => ({
        label, stroke: color(`--chart-${at % 9 + 1}`), width: 1.6, points: { show: found.columns[0].length < 3 },
        fill: found.labels.length === 1 ? `${color("--chart-1")}22` : undefined, value: (_, value) => shown(value, this.unit),
      }))],
    };
  }
}

const charts = new Map();
const findCharts = () => {
  for (const figure of document.querySelectorAll("[data-chart]")) {
    if (!charts.has(figure.dataset.chart)) charts.set(figure.dataset.chart, new Chart(figure));
  }
};
async function drawCharts() {
  findCharts();
  if (!charts.size) return;
  const sources = new Map();
  for (const figure of document.querySelectorAll("[data-chart]")) {
    const source = figure.dataset.source || "/live/series";
    sources.set(source, [...(sources.get(source) || []), figure.dataset.chart]);
  }
  for (const [source, names] of sources) {
    const joined = source.includes("?") ? "&" : "?";
    const answer = await fetch(`${source}${joined}names=${names.join(",")}`, { credentials: "same-origin" }).catch(() => null);
    if (!answer?.ok || answer.redirected) continue;
    const found = await answer.json();
    for (const name of names) charts.get(name)?.draw(found[name]);
  }
}
if (document.querySelector("[data-chart]")) {
  drawCharts();
  setInterval(() => { if (!document.hidden) drawCharts(); }, 4000);
  addEventListener("resize", () => {
    for (const chart of charts.values()) if (chart.plot) chart.plot.setSize({ width: chart.place.clientWidth, height: chart.plot.height });
  });
}

// ---- live rows: only the newest thousand stay on the page

const LIVE_ROWS = 1000;
document.body.addEventListener("htmx:afterSwap", () => {
  let left = LIVE_ROWS;
  for (const part of document.querySelectorAll("tbody[data-live-rows]")) {
    if (left <= 0 || !part.rows.length) part.remove(); else left -= part.rows.length;
  }
});

// ---- SQL: keys, completion, saved queries, answers as lines

const editor = document.querySelector("[data-sql]");
if (editor) {
  const list = document.getElementById("complete");
  let words = { tables: [], columns: [] }, shownWords = [], chosen = 0, asked = null;
  const typedWord = () => /[\w.$]*$/.exec(editor.value.slice(0, editor.selectionStart))[0];
  const hide = () => {
    list.hidden = true;
    editor.setAttribute("aria-expanded", "false");
    editor.removeAttribute("aria-activedescendant");
  };
  const mark = () => {
    [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
    editor.setAttribute("aria-activedescendant", `word-${chosen}`);
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const accept = () => {
    const word = typedWord(), at = editor.selectionStart;
    editor.setRangeText(shownWords[chosen], at - word.length, at, "end");
    hide();
  };
  const offer = () => {
    const word = typedWord().toLowerCase();
    if (word.length < 2) return hide();
    const all = [...words.columns, ...words.tables];
    const starts = all.filter((each) => each.toLowerCase().startsWith(word));
    const holds = all.filter((each) => !starts.includes(each) && each.toLowerCase().includes(word));
    shownWords = [...starts, ...holds].filter((each) => each.toLowerCase() !== word).slice(0, 12);
    if (!shownWords.length) return hide();
    chosen = 0;
    list.replaceChildren(...shownWords.map((each, at) => {
      const item = document.createElement("li");
      item.id = `word-${at}`;
      item.role = "option";
      item.textContent = each;
      item.addEventListener("mousedown", (event) => { event.preventDefault(); chosen = at; accept(); });
      return item;
    }));
    list.hidden = false;
    editor.setAttribute("aria-expanded", "true");
    mark();
  };
  const learn = async () => {
    const answer = await fetch(`/sql/words?text=${encodeURIComponent(editor.value.slice(0, 4000))}`, { credentials: "same-origin" }).catch(() => null);
    if (answer?.ok && !answer.redirected) words = await answer.json();
  };
  learn();
  editor.addEventListener("input", () => {
    offer();
    clearTimeout(asked);
    asked = setTimeout(learn, 600);
  });
  editor.addEventListener("blur", hide);
  editor.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      event.preventDefault();
      hide();
      document.querySelector("[data-run]").click();
    } else if (!list.hidden && (event.key === "Tab" || event.key === "Enter")) {
      event.preventDefault();
      accept();
    } else if (!list.hidden && event.key === "Escape") {
      hide();
    } else if (!list.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : shownWords.length - 1)) % shownWords.length;
      mark();
    }
  });

  const saved = () => JSON.parse(localStorage.getItem("queries") || "{}");
  const showSaved = () => {
    document.querySelector("[data-save-list]").replaceChildren(...Object.entries(saved()).map(([name, text]) => {
      const item = document.createElement("li"), open = document.createElement("button"), drop = document.createElement("button");
      open.type = drop.type = "button";
      open.textContent = name;
      open.addEventListener("click", () => { editor.value = text; editor.focus(); });
      drop.textContent = "Remove";
      drop.className = "quiet";
      drop.setAttribute("aria-label", `Remove ${name}`);
      drop.addEventListener("click", () => {
        const { [name]: _, ...others } = saved();
        localStorage.setItem("queries", JSON.stringify(others));
        showSaved();
      });
      item.append(open, " ", drop);
      return item;
    }));
  };
  document.querySelector("[data-save]").addEventListener("click", () => {
    const field = document.querySelector("[data-save-name]");
    if (!field.value.trim() || !editor.value.trim()) return field.focus();
    localStorage.setItem("queries", JSON.stringify({ ...saved(), [field.value.trim()]: editor.value }));
    field.value = "";
    showSaved();
  });
  showSaved();
  document.body.addEventListener("htmx:afterSwap", (event) => {
    for (const figure of event.target.querySelectorAll("[data-answer]")) new Chart(figure).draw(JSON.parse(figure.dataset.answer));
  });
}
