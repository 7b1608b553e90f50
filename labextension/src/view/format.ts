/** Numbers and times as people read them. Missing ones are a dash. */

import { t } from "./text";

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
  // Not "-0".
  return FINE.format(value + 0);
}

export function decimal(value: Maybe): string {
  return known(value) ? value.toFixed(1) : MISSING;
}

/** Of a share, 0 to 1. */
export function percent(value: Maybe): string {
  return known(value) ? `${Math.round(100 * value)} %` : MISSING;
}

/** 12.3k, 4.56M. */
export function short(value: Maybe): string {
  if (!known(value)) return MISSING;
  const size = rounded(value);
  if (size >= 1e9) return `${ROUGH.format(value / 1e9)}G`;
  if (size >= 1e6) return `${ROUGH.format(value / 1e6)}M`;
  if (size >= 1e4) return `${ROUGH.format(value / 1e3)}k`;
  return size < 10 ? ROUGH.format(value) : WHOLE.format(value);
}

export function bytes(value: Maybe): string {
  if (!known(value)) return MISSING;
  const size = rounded(value);
  if (size >= 1e9) return t("%1 GB", ROUGH.format(value / 1e9));
  if (size >= 1e6) return t("%1 MB", ROUGH.format(value / 1e6));
  if (size >= 1e3) return t("%1 kB", ROUGH.format(value / 1e3));
  return t("%1 B", ROUGH.format(value));
}

/** As large as it will look: 999,999 is a million in three digits. */
function rounded(value: number): number {
  return Number(Math.abs(value).toPrecision(3));
}

/** A name of at most so many characters; a longer one with an ellipsis for its middle. */
export function shortened(name: string, most: number): string {
  const all = Array.from(name);
  if (all.length <= most) return name;
  const end = Math.floor(most / 4);
  return `${all.slice(0, most - end - 1).join("")}…${all.slice(all.length - end).join("")}`;
}

/** 0 s, 45 ms, 3.2 s, 12 s, 4 min 05 s, 2 h 13 min. */
export function duration(seconds: Maybe): string {
  if (!known(seconds)) return MISSING;
  if (seconds === 0) return t("%1 s", 0);
  if (seconds < 0.0995) return t("%1 ms", Math.round(seconds * 1000));
  if (seconds < 9.95) return t("%1 s", seconds.toFixed(1));
  if (seconds < 59.5) return t("%1 s", Math.round(seconds));
  const whole = Math.round(seconds);
  const pad = (value: number): string => String(value).padStart(2, "0");
  if (whole < 3600) return t("%1 min %2 s", Math.floor(whole / 60), pad(whole % 60));
  return t("%1 h %2 min", Math.floor(whole / 3600), pad(Math.floor((whole % 3600) / 60)));
}

/** Such as `~40 s`, `~4 min` or `~2 h 10 min`, in words of `say`. */
export function roughly(seconds: number, say = t): string {
  // Steps of five seconds, and of five minutes above an hour, so that it does not flicker.
  if (seconds < 57.5)
    return say("~%1 s", seconds < 10 ? Math.ceil(seconds) : 5 * Math.round(seconds / 5));
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return say("~%1 min", minutes);
  const fives = 5 * Math.round(minutes / 5);
  return say("~%1 h %2 min", Math.floor(fives / 60), fives % 60);
}
