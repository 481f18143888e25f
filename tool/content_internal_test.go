package tool

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
)

// TestContentHoldsNoCredential: a text has the reference in its place, and an image
// that has it somewhere is withheld.
func TestContentHoldsNoCredential(t *testing.T) {
	const secret = "correct-horse-battery"
	r := redact.New(map[string]string{"TOKEN": secret})
	d := &Definition{Tool: "t", MaxResult: 1000}
	raw := flow.JSON(map[string]any{
		"content": []any{
			map[string]any{"type": "text", "text": "it is " + secret},
			map[string]any{"type": "image", "mimeType": "image/png", "data": []byte("png " + secret)},
			map[string]any{"type": "image", "mimeType": "image/png", "data": []byte("png")},
		},
		"structuredContent": map[string]any{"token": secret},
	})
	value, media, failed := answer(d, reply{result: raw}, Input{Content: true}, r, false)
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
	if with := got.Content[1]; with.Data != nil || with.Size != len("png "+secret) || with.Digest != "" || !with.Withheld {
		t.Errorf("the image with it: %+v", with)
	}
	if without := got.Content[2]; string(without.Data) != "png" || without.Digest != "" {
		t.Errorf("the image without: %+v", without)
	}
	if media != nil {
		t.Errorf("%d are to be kept, and nobody keeps them", len(media))
	}
	if clean := r.Bytes(value); string(clean) != string(value) {
		t.Errorf("there is more to replace: %s", clean)
	}
}

// TestKeptMediaHoldNoCredential: what is stored beside a result is cleaned like it, and
// is named by the digest of what is stored.
func TestKeptMediaHoldNoCredential(t *testing.T) {
	const secret = "correct-horse-battery"
	r := redact.New(map[string]string{"TOKEN": secret})
	raw := flow.JSON(map[string]any{"content": []any{
		map[string]any{"type": "image", "mimeType": "image/png", "data": []byte("png " + secret)},
		map[string]any{"type": "audio", "mimeType": "audio/wav", "data": []byte("wav")},
		map[string]any{"type": "resource", "resource": map[string]any{"uri": "note://" + secret, "mimeType": "text/plain", "text": "it is " + secret}},
		map[string]any{"type": "resource_link", "name": "log", "uri": "https://log?key=" + secret, "mimeType": "text/plain"},
	}})
	value, media, failed := answer(&Definition{Tool: "t", MaxResult: 1000}, reply{result: raw}, Input{}, r, true)
	if failed != nil {
		t.Fatal(failed)
	}
	var got struct{ Blobs []blob }
	if err := json.Unmarshal(value, &got); err != nil {
		t.Fatal(err)
	}
	link := []byte(`{"mimeType":"text/plain","name":"log","type":"resource_link","uri":"https://log?key=$env:TOKEN"}`)
	want := []blob{
		{Type: "image", MimeType: "image/png", Size: len("png " + secret), Withheld: true},
		{Type: "audio", MimeType: "audio/wav", Size: 3, Digest: flow.Digest([]byte("wav"))},
		{Type: "resource", MimeType: "text/plain", Size: len("it is $env:TOKEN"), Digest: flow.Digest([]byte("it is $env:TOKEN")), URI: "note://$env:TOKEN"},
		{Type: "resource_link", MimeType: "text/plain", Size: len(link), Digest: flow.Digest(link), URI: "https://log?key=$env:TOKEN", Name: "log"},
	}
	if !slices.Equal(got.Blobs, want) {
		t.Errorf("got %s", value)
	}
	if len(media) != 3 || string(media[0]) != "wav" || string(media[1]) != "it is $env:TOKEN" || string(media[2]) != string(link) {
		t.Errorf("kept are %q", media)
	}
}
