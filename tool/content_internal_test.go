package tool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// TestContentHoldsNoCredential: a text has the reference in its place, and an image
// that has it somewhere is told by its digest alone.
func TestContentHoldsNoCredential(t *testing.T) {
	const secret = "correct-horse-battery"
	r := NewRedactor(map[string]string{"TOKEN": secret})
	d := &Definition{Tool: "t", MaxResult: 1000}
	raw := flow.JSON(map[string]any{
		"content": []any{
			map[string]any{"type": "text", "text": "it is " + secret},
			map[string]any{"type": "image", "mimeType": "image/png", "data": []byte("png " + secret)},
			map[string]any{"type": "image", "mimeType": "image/png", "data": []byte("png")},
		},
		"structuredContent": map[string]any{"token": secret},
	})
	value, failed := answer(d, reply{result: raw}, Input{Content: true}, r)
	if failed != nil {
		t.Fatal(failed)
	}
	var got Reply
	if err := json.Unmarshal(value, &got); err != nil {
		t.Fatal(err)
	}
	if got.Content[0].Text != "it is $env:TOKEN" || string(got.Structured) != `{"token":"$env:TOKEN"}` {
		t.Errorf("got %s", value)
	}
	if with := got.Content[1]; with.Data != nil || with.Size != len("png "+secret) || !strings.HasPrefix(with.Digest, "sha256:") {
		t.Errorf("the image with it: %+v", with)
	}
	if without := got.Content[2]; string(without.Data) != "png" || without.Digest != "" {
		t.Errorf("the image without: %+v", without)
	}
	if clean := r.Bytes(value); string(clean) != string(value) {
		t.Errorf("there is more to replace: %s", clean)
	}
}
