package journal

import (
	"fmt"
	"strings"
	"testing"
)

// plainRecord is of the size that a step usually has: about 480 bytes.
func plainRecord(seq int64) Record {
	body := fmt.Sprintf(`{"name":"tool.call","attempt":1,"digest":%q,"input":{"uri":"mcp://builtin/read_file@1.0.0","args":{"path":"notes/%d.txt"}},"value":{"text":"%s"},"ms":3}`,
		Sum(nil), seq, strings.Repeat("word ", 22))
	return Record{At: testStart, Body: []byte(body), Epoch: 1, Kind: "effect.finished", Path: "root/read", Run: testRun, Seq: seq}
}

func BenchmarkVerifyPlain(b *testing.B) {
	var records [][]byte
	for i := range 1000 {
		r := plainRecord(int64(i + 1))
		records = append(records, r.AppendTo(nil))
	}
	b.SetBytes(int64(len(records[500])))
	b.ReportAllocs()
	i, v := 0, NewVerifier(&Options{Open: true, Blob: newLibrary().blob})
	for b.Loop() {
		v.Add(records[i], nil)
		if i++; i == len(records) {
			if res := v.Close(); !res.OK() {
				b.Fatal(res.Faults)
			}
			i, v = 0, NewVerifier(&Options{Open: true, Blob: newLibrary().blob})
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkParse(b *testing.B) {
	r := plainRecord(7)
	record := r.AppendTo(nil)
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(record); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	r := plainRecord(7)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = r.AppendTo(dst[:0])
	}
}

func BenchmarkDetachSmall(b *testing.B) {
	r := plainRecord(7)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Detach(r.Kind, false, r.Body, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	book, l := wholeRun(b)
	r := book.envelope("intent.draft", Executor, book.draftBody(l, ""))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := book.executor.Seal(r); err != nil {
			b.Fatal(err)
		}
	}
}
