package provider

import "testing"

func TestHeadersOfARequest(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		s := serve(t, events(v.text(`"a"`)))
		if h := ask(t, v.open(t, s), hello); h.err != nil {
			t.Fatal(h.err)
		}
		want := map[string]string{"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "tipstaff", "Authorization": "Bearer " + testKey, "X-Api-Key": "", "Anthropic-Version": "", "X-Goog-Api-Key": ""}
		switch v.provider {
		case Anthropic:
			want["Authorization"], want["X-Api-Key"], want["Anthropic-Version"] = "", testKey, "2023-06-01"
		case Gemini:
			want["Authorization"], want["X-Goog-Api-Key"] = "", testKey
		}
		for name, value := range want {
			if got := s.heads[0].Get(name); got != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
	})
}
