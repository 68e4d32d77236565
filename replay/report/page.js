// Draws the charts of the page, in the colours of its style, and lets one move in time.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const tip = document.body.appendChild(document.createElement("div"));
  Object.assign(tip, { id: "tip", role: "tooltip", hidden: true });
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Colours of a specification are names of the style; data stands apart from it.
  const coloured = (spec) =>
    JSON.parse(JSON.stringify(spec), (_, value) =>
      typeof value === "string" && /^--[a-z]+$/.test(value) ? colour(value) : value);

  function config() {
    const ink = colour("--ink"), quiet = colour("--quiet"), line = colour("--line");
    return {
      background: null, font: "system-ui, sans-serif", view: { stroke: null },
      axis: { labelColor: ink, titleColor: quiet, domainColor: line, tickColor: line, gridColor: line, labelFontSize: 12, titleFontSize: 12 },
      axisX: { grid: false }, legend: { labelColor: ink, titleColor: quiet, labelFontSize: 12 },
    };
  }

  class Figure {
    constructor(element, chart) {
      Object.assign(this, {
        element, chart, place: element.querySelector(".chart"), said: element.querySelector("output"),
        lo: chart.first, hi: chart.last, at: -1, busy: false, again: false,
      });
      if (this.hi <= this.lo) [this.lo, this.hi] = [this.lo - 1, this.hi + 1];
      this.whole = [this.lo, this.hi];
      this.stops = chart.stops ? [...chart.data[chart.stops]].sort((a, b) => this.begin(a) - this.begin(b)) : [];
      for (const button of element.querySelectorAll("button"))
        button.addEventListener("click", () => this.act(button.dataset.do));
      this.place.addEventListener("keydown", (event) => {
        const act = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "whole", n: "next", p: "back" }[event.key];
        if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); this.act(act); }
      });
      this.place.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY / 300), this.under(event));
      }, { passive: false });
      this.place.addEventListener("dblclick", (event) => this.zoom(0.4, this.under(event)));
      this.place.addEventListener("pointerdown", (event) => {
        if (event.button === 0) this.drag = { x: event.clientX, lo: this.lo, hi: this.hi };
      });
      addEventListener("pointermove", (event) => {
        if (!this.drag || !event.buttons) return;
        const by = ((event.clientX - this.drag.x) / this.view.width()) * (this.drag.hi - this.drag.lo);
        this.show(this.drag.lo - by, this.drag.hi - by);
      });
      addEventListener("pointerup", () => { this.drag = null; });
    }
    begin(row) { return row.from ?? row.x; }
    under(event) {
      const box = this.place.getBoundingClientRect();
      const share = (event.clientX - box.left - this.view.origin()[0]) / this.view.width();
      return this.lo + Math.min(1, Math.max(0, share)) * (this.hi - this.lo);
    }
    async draw() {
      const spec = { ...coloured(this.chart.spec), datasets: this.chart.data };
      this.view?.finalize();
      const made = await vegaEmbed(this.place, spec, {
        actions: false, renderer: "canvas", ast: true, config: config(),
        tooltip: (_, event, __, row) => this.point(event, row),
      });
      this.view = made.view;
      await this.show(this.lo, this.hi, true);
      this.element.dataset.drawn = "yes";
    }
    show(lo, hi, quietly) {
      const [first, last] = this.whole, least = (last - first) * 1e-9 || 1e-3;
      const width = Math.min(Math.max(hi - lo, least), last - first);
      lo = Math.min(Math.max(lo, first), last - width);
      [this.lo, this.hi] = [lo, lo + width];
      if (!quietly) this.said.textContent = `Shown: ${this.time(this.lo)} to ${this.time(this.hi)}`;
      return this.redraw();
    }
    // While a drawing is on its way, further moves wait and become one.
    async redraw() {
      if (this.busy) { this.again = true; return; }
      this.busy = true;
      do {
        this.again = false;
        await this.view.signal("lo", this.lo).signal("hi", this.hi).runAsync();
      } while (this.again);
      this.busy = false;
    }
    zoom(factor, around = (this.lo + this.hi) / 2) {
      this.show(around - (around - this.lo) * factor, around + (this.hi - around) * factor);
    }
    act(what) {
      const width = this.hi - this.lo;
      if (what === "in") this.zoom(0.5);
      if (what === "out") this.zoom(2);
      if (what === "left") this.show(this.lo - width / 4, this.hi - width / 4);
      if (what === "right") this.show(this.lo + width / 4, this.hi + width / 4);
      if (what === "whole") this.show(...this.whole);
      if ((what === "next" || what === "back") && this.stops.length) this.step(what === "next" ? 1 : -1);
    }
    step(by) {
      const n = this.stops.length;
      this.at = this.at < 0 ? (by > 0 ? 0 : n - 1) : (this.at + by + n) % n;
      const row = this.stops[this.at], begin = this.begin(row), end = row.to ?? begin;
      const margin = Math.max(2 * (end - begin), (this.whole[1] - this.whole[0]) / 400);
      this.show(begin - margin, end + margin, true);
      const told = this.told(row).map(([name, text]) => `${name} ${text}`).join(", ");
      this.said.textContent = `${this.at + 1} of ${n.toLocaleString("en")}: ${told}`;
    }
    // Names and texts of the fields of a row.
    told(row) {
      return Object.entries(this.chart.labels).filter(([field]) => row[field] !== undefined).map(([field, name]) => {
        const value = row[field];
        if (["from", "to", "x"].includes(field)) return [name, this.time(value)];
        return [name, typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 7 }) : value];
      });
    }
    point(event, row) {
      tip.replaceChildren();
      tip.hidden = !row || typeof row !== "object" || !this.told(row).length;
      if (tip.hidden) return;
      for (const [name, text] of this.told(row)) {
        const line = tip.appendChild(document.createElement("div"));
        line.appendChild(document.createElement("b")).textContent = name;
        line.append(` ${text}`);
      }
      tip.style.left = `${Math.max(0, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
      tip.style.top = `${event.clientY + 14 + tip.offsetHeight > innerHeight ? event.clientY - 14 - tip.offsetHeight : event.clientY + 14}px`;
    }
    time(place) {
      return this.chart.clock ? new Date(place).toISOString().replace(/\.000Z$/, "Z") : String(Math.round(place));
    }
  }

  const figures = [...document.querySelectorAll("figure[data-chart]")].map(
    (element) => new Figure(element, charts[Number(element.dataset.chart)]));
  const draw = () => figures.forEach((figure) => figure.draw().catch((error) => {
    figure.said.textContent = `This chart could not be drawn: ${error.message}`;
    console.error(error);
  }));
  dark.addEventListener("change", draw);
  addEventListener("resize", () => {
    clearTimeout(addEventListener.waiting);
    addEventListener.waiting = setTimeout(() => figures.forEach((f) => f.view?.resize().runAsync()), 100);
  });
  draw();
})();
