// Reads the files of a tar as its bytes arrive. next gives a piece, or undefined at the end.
export async function* files(next) {
  let have = new Uint8Array(0);

  async function* pieces(size) {
    while (size > 0) {
      if (!have.length) have = await next();
      if (!have) throw new Error("the export is cut off");
      const piece = have.subarray(0, size);
      have = have.subarray(piece.length);
      size -= piece.length;
      yield piece;
    }
  }
  async function take(size) {
    const all = new Uint8Array(size);
    let at = 0;
    for await (const piece of pieces(size)) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }

  for (;;) {
    const header = await take(512);
    if (!header[0]) return;
    const field = (at, size) => String.fromCharCode(...header.subarray(at, at + size)).replace(/\0[^]*/, "");
    const name = (field(345, 155) + "/" + field(0, 100)).replace(/^\//, "");
    const size = parseInt(field(124, 12), 8);
    let left = true;
    const read = (how) => () => {
      left = false;
      return how(size);
    };
    // The first part of a name is the folder that the export is in.
    yield { name: name.slice(name.indexOf("/") + 1), size, chunks: read(pieces), bytes: read(take) };
    if (left) for await (const _ of pieces(size));
    await take((512 - (size % 512)) % 512);
  }
}
