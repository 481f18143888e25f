package agent

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

func resultOf(s Settings, content ...tool.Content) *result {
	reply := tool.Reply{Content: content}
	return (&turn{Settings: s}).reply(reply, flow.JSON(reply))
}

func TestLongResultsAreShortened(t *testing.T) {
	const mib = 1 << 20
	whole := strings.Repeat("a", mib/2) + strings.Repeat("z", mib/2)
	r := resultOf(Settings{MaxResultBytes: 32 << 10}, tool.Content{Type: tool.ContentText, Text: whole})
	marker := fmt.Sprintf("\n[… %d bytes in all, the whole is %s …]\n", mib, r.ref)
	want := strings.Repeat("a", 24<<10) + marker + strings.Repeat("z", 8<<10)
	if got := r.content[0].Text; got != want {
		t.Errorf("%d bytes enter the conversation, beginning %.20q", len(got), got)
	}
	if r.bytes != mib || len(r.preview) != 4<<10 || r.ref != flow.Digest(flow.JSON(tool.Reply{Content: []tool.Content{{Type: "text", Text: whole}}})) {
		t.Errorf("bytes %d, preview %d, ref %s", r.bytes, len(r.preview), r.ref)
	}
	exact := strings.Repeat("a", 32<<10)
	if got := resultOf(Settings{MaxResultBytes: 32 << 10}, tool.Content{Type: tool.ContentText, Text: exact}).content[0].Text; got != exact {
		t.Error("what just fits was shortened")
	}
}

func TestTextIsCutBetweenCharacters(t *testing.T) {
	for _, unit := range []string{"é", "漢", "🙂"} {
		for most := 256; most < 300; most++ {
			short := shortText(strings.Repeat(unit, 500), most, "[… sha256:00 …]")
			if !utf8.ValidString(short) {
				t.Fatalf("%d bytes of %s are not valid", most, unit)
			}
			head, rest, _ := strings.Cut(short, "\n[…")
			_, tail, _ := strings.Cut(rest, "…]\n")
			if len(head)+len(tail) > most || len(head)+len(tail) < most-2*len(unit) {
				t.Fatalf("of %d bytes %d and %d are left", most, len(head), len(tail))
			}
		}
	}
}

func TestContentForModels(t *testing.T) {
	image := tool.Content{Type: "image", MimeType: "image/png", Data: []byte("png")}
	audio := tool.Content{Type: "audio", MimeType: "audio/wav", Size: 9, Digest: "sha256:11"}
	a, b := tool.Content{Type: "text", Text: "a"}, tool.Content{Type: "text", Text: "b"}
	kept := tool.Content{Type: "image", MimeType: "image/png", Size: 3, Digest: "sha256:33", Kept: true}
	text := func(s string) Content { return Content{Type: ContentText, Text: s} }
	// printf png | sha256sum
	const line = "[image/png, 3 bytes, sha256:8f8cbb7dcf46e0bc7d53265749a6c17d116093a6ba95e442764060c76fd4a86c]"
	for name, c := range map[string]struct {
		images  bool
		content []tool.Content
		want    []Content
		bytes   int64
	}{
		"nothing":                       {content: nil, want: nil},
		"texts":                         {content: []tool.Content{a, b}, want: []Content{text("a\nb")}, bytes: 2},
		"an image":                      {images: true, content: []tool.Content{image, a}, want: []Content{text("a"), {Type: ContentImage, MimeType: "image/png", Data: []byte("png")}}, bytes: 4},
		"an image that is not taken":    {content: []tool.Content{a, image}, want: []Content{text("a\n" + line)}, bytes: 4},
		"something else":                {images: true, content: []tool.Content{audio}, want: []Content{text("[audio/wav, 9 bytes, sha256:11]")}, bytes: 9},
		"something without a type":      {content: []tool.Content{{Type: "odd", Size: 1, Digest: "sha256:22"}}, want: []Content{text("[odd, 1 bytes, sha256:22]")}, bytes: 1},
		"an image that is too large":    {images: true, content: []tool.Content{{Type: "image", MimeType: "image/png", Data: make([]byte, maxImages+1)}}, want: []Content{text("[image/png, 2621441 bytes, sha256:61384843b573caa0f3a8e5a9e4057bfe9cec4f84b821d335c61c9ec6804b2d1a]")}, bytes: 2621441},
		"an image that lost its bytes":  {images: true, content: []tool.Content{{Type: "image", MimeType: "image/png", Size: 3, Digest: "sha256:33"}}, want: []Content{text("[image/png, 3 bytes, sha256:33]")}, bytes: 3},
		"a kept image":                  {images: true, content: []tool.Content{kept, a}, want: []Content{text("a"), kept}, bytes: 4},
		"a kept image that is not seen": {content: []tool.Content{kept}, want: []Content{text("[image/png, 3 bytes, sha256:33]")}, bytes: 3},
		"a kept image of another kind": {images: true, content: []tool.Content{{Type: "image", MimeType: "image/tiff", Size: 3, Digest: "sha256:33", Kept: true}},
			want: []Content{text("[image/tiff, 3 bytes, sha256:33]")}, bytes: 3},
		"a kept image of over 5 MB in base64": {images: true, content: []tool.Content{{Type: "image", MimeType: "image/png", Size: 3_750_001, Digest: "sha256:33", Kept: true}},
			want: []Content{text("[image/png, 3750001 bytes, sha256:33]")}, bytes: 3_750_001},
		"a withheld image": {images: true, content: []tool.Content{{Type: "image", MimeType: "image/png", Size: 3, Withheld: true}},
			want: []Content{text("[image/png, 3 bytes, withheld: it holds a credential]")}, bytes: 3},
	} {
		r := resultOf(Settings{MaxResultBytes: 1000, Caps: Caps{Images: c.images}}, c.content...)
		if diff := cmp.Diff(c.want, r.content); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if r.bytes != c.bytes {
			t.Errorf("%s: %d bytes, want %d", name, r.bytes, c.bytes)
		}
	}
}

func TestStructuredResultsAreShownWhereThereIsNothingElse(t *testing.T) {
	reply := tool.Reply{Structured: []byte(`{"full":true}`)}
	r := (&turn{Settings: Settings{MaxResultBytes: 1000}}).reply(reply, flow.JSON(reply))
	if len(r.content) != 1 || r.content[0].Text != `{"full":true}` {
		t.Errorf("%+v", r.content)
	}
	reply.Content = []tool.Content{{Type: "text", Text: "It is full."}}
	r = (&turn{Settings: Settings{MaxResultBytes: 1000}}).reply(reply, flow.JSON(reply))
	if len(r.content) != 1 || r.content[0].Text != "It is full." {
		t.Errorf("%+v", r.content)
	}
}

// The bytes of images that a conversation names are put into the request, the newest
// first, as far as the model sees images and the request has room.
func TestImagesOfARequestAreRead(t *testing.T) {
	message := func(digest string, size int) Message {
		return Message{Role: FromTool, Content: []Content{{Type: ContentText, Text: "x"}, {Type: ContentImage, MimeType: "image/png", Digest: digest, Size: size, Kept: true}}}
	}
	r := Request{Messages: []Message{{Role: User, Text: "look"}, message("sha256:1", 1), message("sha256:2", maxShown), message("sha256:3", 3)}}
	read := func(digest string) ([]byte, error) { return []byte("bytes of " + digest), nil }
	line := func(text string) Content { return Content{Type: ContentText, Text: text} }
	for images, want := range map[bool][]Content{
		true: {line("[image/png, 1 bytes, sha256:1]"), line(fmt.Sprintf("[image/png, %d bytes, sha256:2]", maxShown)),
			{Type: ContentImage, MimeType: "image/png", Data: []byte("bytes of sha256:3")}},
		false: {line("[image/png, 1 bytes, sha256:1]"), line(fmt.Sprintf("[image/png, %d bytes, sha256:2]", maxShown)), line("[image/png, 3 bytes, sha256:3]")},
	} {
		shown, err := r.Shown(Caps{Images: images}, read)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if diff := cmp.Diff([]Content{line("x"), w}, shown.Messages[i+1].Content); diff != "" {
				t.Errorf("images %v, message %d (-want +got):\n%s", images, i+1, diff)
			}
		}
		if r.Messages[3].Content[1].Data != nil {
			t.Error("the conversation itself has changed")
		}
	}
	if _, err := r.Shown(Caps{Images: true}, func(string) ([]byte, error) { return nil, flow.ErrNoBlob }); err == nil {
		t.Error("an image that is not there was shown")
	}
	if got := Kept(append(r.Messages, r.Messages...)); len(got) != 3 || got[0] != "sha256:1" {
		t.Errorf("kept are %v", got)
	}
}
