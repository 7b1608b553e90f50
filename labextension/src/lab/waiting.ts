/** Those who wait for the same thing, until it happens or is known not to. */

export class Waiting {
  private readonly all: { resolve: () => void; reject: (error: Error) => void }[] = [];

  wait(): Promise<void> {
    return new Promise((resolve, reject) => this.all.push({ resolve, reject }));
  }

  resolve(): void {
    for (const { resolve } of this.all.splice(0)) resolve();
  }

  reject(why: string): void {
    for (const { reject } of this.all.splice(0)) reject(new Error(why));
  }
}
