/** What people may change in JupyterLab's settings; `schema/plugin.json` says the same. */

import type { ISettingRegistry } from "@jupyterlab/settingregistry";
import { type ISignal, Signal } from "@lumino/signaling";

import type { Axis } from "../view/curves";

/** What concerns a view of a run. */
export interface ViewSettings {
  /** Seconds between two updates at least. */
  updateSeconds: number;
  /** How many points of a curve are kept. */
  points: number;
  axis: Axis;
}

export interface Settings extends ViewSettings {
  notify: "never" | "failed" | "always";
  /** Seconds that a run must have lasted for its end to be news. */
  notifyAfter: number;
}

export const DEFAULTS: Settings = {
  updateSeconds: 0.2,
  points: 4000,
  axis: "time",
  notify: "always",
  notifyAfter: 60,
};

export class SettingsModel {
  private values = DEFAULTS;
  private readonly changes = new Signal<this, Settings>(this);

  /** The defaults, if JupyterLab has no registry or its values do not obey the schema. */
  static async load(registry: ISettingRegistry | null, pluginId: string): Promise<SettingsModel> {
    const model = new SettingsModel();
    if (registry === null) return model;
    try {
      const settings = await registry.load(pluginId);
      const take = (): void => {
        model.take(settings.composite);
      };
      settings.changed.connect(take);
      take();
    } catch (reason) {
      console.error(`${pluginId}: the default settings are used.`, reason);
    }
    return model;
  }

  get current(): Settings {
    return this.values;
  }

  get changed(): ISignal<this, Settings> {
    return this.changes;
  }

  /** What the registry has checked against the schema. */
  private take(values: Partial<Settings>): void {
    this.values = { ...DEFAULTS, ...values };
    this.changes.emit(this.values);
  }
}
