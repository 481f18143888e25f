// SHA-256 (FIPS 180-4), for browsers that keep WebCrypto from pages without TLS.
const root = (n, power) => Math.floor((n ** power % 1) * 2 ** 32) | 0;
const primes = [];
for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
const K = primes.map((p) => root(p, 1 / 3));
const H = primes.slice(0, 8).map((p) => root(p, 1 / 2));
const turn = (x, n) => (x >>> n) | (x << (32 - n));

export function sha256(bytes) {
  const padded = new Uint8Array(((bytes.length + 72) >> 6) << 6);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const h = Int32Array.from(H), w = new Int32Array(64);
  for (let at = 0; at < padded.length; at += 64) {
    let [a, b, c, d, e, f, g, i] = h;
    for (let t = 0; t < 64; t++) {
      if (t < 16) w[t] = view.getInt32(at + 4 * t);
      else {
        const x = w[t - 15], y = w[t - 2];
        w[t] = w[t - 16] + w[t - 7] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
      }
      const one = (i + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [i, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, i].forEach((v, n) => (h[n] += v));
  }
  const out = new DataView(new ArrayBuffer(32));
  h.forEach((v, n) => out.setInt32(4 * n, v));
  return new Uint8Array(out.buffer);
}
