// Texts around numbers and names.

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Return whether a workload in this state waits for its turn: others wait for a change, whatever their place. */
export function waitsForItsTurn(state: string): boolean {
  return ["Queued", "Evicted"].includes(state);
}

/** Return the words of a CamelCase name: "QuotaReserved" gives "Quota reserved". */
export function spaced(name: string): string {
  const words = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/([A-Z]+)([A-Z][a-z])/g, "$1 $2");
  return words.charAt(0) + words.slice(1).toLowerCase();
}

/** Split a message into plain parts and parts in quotes or backquotes, which are names. */
export function withNames(message: string): { text: string; name: boolean }[] {
  return message
    .split(/(`[^`]+`|"[^"]+")/)
    .filter(Boolean)
    .map((part) =>
      /^[`"].+[`"]$/.test(part) ? { text: part.slice(1, -1), name: true } : { text: part, name: false },
    );
}
