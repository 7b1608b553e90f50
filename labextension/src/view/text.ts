/** Every word that people read goes through here, so that a front end can translate it. */

type Value = string | number;

/** JupyterLab's TranslationBundle is one. %1, %2 ... stand for the values; in `_n`, %1 is n. */
export interface Translation {
  __(text: string, ...values: Value[]): string;
  _n(singular: string, plural: string, n: number, ...values: Value[]): string;
}

const ENGLISH: Translation = {
  __: (text, ...values) =>
    text.replace(/%(\d+)/g, (_, place: string) => String(values[Number(place) - 1])),
  _n: (singular, plural, n, ...values) => ENGLISH.__(n === 1 ? singular : plural, n, ...values),
};

let translation = ENGLISH;

/** What is on the page already stays as it is; null is English again. */
export function setTranslation(chosen: Translation | null): void {
  translation = chosen ?? ENGLISH;
}

/** Call it where the text is shown, not at import: the translation comes later. */
export function t(text: string, ...values: Value[]): string {
  return translation.__(text, ...values);
}

export function tn(singular: string, plural: string, n: number, ...values: Value[]): string {
  return translation._n(singular, plural, n, ...values);
}
