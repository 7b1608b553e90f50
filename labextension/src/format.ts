/** Numbers and times as people read them. Missing ones are a dash. */

export const MISSING = "–";

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const FINE = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
const ROUGH = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

type Maybe = number | null | undefined;

function known(value: Maybe): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

export function count(value: Maybe): string {
  return known(value) ? WHOLE.format(value) : MISSING;
}

/** Four digits; very large and very small values with an exponent. */
export function number(value: Maybe): string {
  if (!known(value)) return MISSING;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2);
  return FINE.format(value);
}

export function decimal(value: Maybe): string {
  return known(value) ? value.toFixed(1) : MISSING;
}

/** 12.3k, 4.56M. */
export function short(value: Maybe): string {
  if (!known(value)) return MISSING;
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ] as const) {
    const scale = unit === "k" ? 1e3 : size;
    if (Math.abs(value) >= size) return ROUGH.format(value / scale) + unit;
  }
  return Math.abs(value) < 10 ? ROUGH.format(value) : WHOLE.format(value);
}

export function bytes(value: Maybe): string {
  if (!known(value)) return MISSING;
  for (const [size, unit] of [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ] as const) {
    if (Math.abs(value) >= size) return `${ROUGH.format(value / size)} ${unit}`;
  }
  return `${ROUGH.format(value)} B`;
}

/** 45 ms, 3.2 s, 12 s, 4 min 05 s, 2 h 13 min. */
export function duration(seconds: Maybe): string {
  if (!known(seconds)) return MISSING;
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const pad = (value: number): string => String(value).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
}
