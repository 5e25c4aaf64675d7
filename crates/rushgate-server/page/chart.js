// Time series charts, drawn by uPlot. Charts of one screen share their time axis and their cursor.
import { html, useEffect, useLayoutEffect, useRef } from '/page/vendor/preact.js';
import { clockTime, language, rate, t } from '/page/common.js';

const dark = matchMedia('(prefers-color-scheme: dark)');
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Distances of grid lines. All are shown in full, with at most one decimal. */
const STEPS = [0.5, ...Array.from({ length: 12 }, (_, n) => [1, 2, 5].map((step) => step * 10 ** n)).flat()];

function optionsOf({ lines, height, sync, range }, width, size) {
  const axis = { stroke: color('soft'), grid: { stroke: color('line'), width: 1 }, ticks: { stroke: color('line'), width: 1 }, font: `${size}px system-ui` };
  // Wide enough that labels do not overlap.
  const time = { ...axis, space: 7 * size, size: 2.6 * size, values: (_, moments) => moments.map(clockTime) };
  // Wide enough for the longest number, of which a character takes less than 0.6 of its height.
  const widest = (_, texts) => size * Math.max(4.5, 1.5 + 0.6 * Math.max(0, ...(texts ?? []).map((text) => text.length)));
  const values = { ...axis, size: widest, incrs: STEPS, values: (_, all) => all.map(rate) };
  const series = lines.map(({ label, name, dash }) => ({
    label, stroke: color(name), dash, width: 2, points: { show: false }, value: (_, value) => (value === null || value === undefined ? '–' : rate(value)),
  }));
  return {
    width, height, axes: [time, values],
    series: [{ label: t('time'), value: (_, s) => (s === null || s === undefined ? '–' : clockTime(s)) }, ...series],
    legend: { live: true, markers: { width: 2, fill: (_, n) => (lines[n - 1]?.dash ? 'transparent' : color(lines[n - 1]?.name ?? 'line')) } }, cursor: { sync: { key: sync, setSeries: false }, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { range: () => range.current }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
  };
}

/**
 * A chart of `data`: times in milliseconds, then one row per line. It spans `window_s` up to the newest point, so that
 * charts of one screen show the same time.
 */
export function Chart({ label, lines, data, sync = 'time', height = 190, window_s, size = 12 }) {
  const place = useRef();
  const plot = useRef(null);
  const range = useRef([0, 1]);
  const shape = JSON.stringify([language.value, lines.map((line) => [line.name, line.label, line.dash]), height, size]);
  const last = data?.[0].at(-1) / 1000;
  const first = data?.[0][0] / 1000;
  if (last) range.current = [Math.max(last - window_s, Math.min(first, last - 60)), last];
  const columns = () => [data[0].map((ms) => ms / 1000), ...data.slice(1)];
  const make = () => {
    plot.current?.destroy();
    plot.current = null;
    const width = place.current?.clientWidth;
    if (width && data?.[0].length > 1) plot.current = new uPlot(optionsOf({ lines, height, sync, range }, width, size), columns(), place.current);
  };
  useLayoutEffect(() => {
    make();
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: place.current.clientWidth, height }));
    resize.observe(place.current);
    dark.addEventListener('change', make);
    return () => {
      resize.disconnect();
      dark.removeEventListener('change', make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, data?.[0].length > 1]);
  useEffect(() => { if (plot.current && data) plot.current.setData(columns()); });
  return html`<div class="chart" role="img" aria-label=${label} ref=${place}></div>`;
}
