package agent

import (
	"fmt"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// conversation is a list of messages.
type conversation struct{ entries []*entry }

// entry is a message and what is known of it, so that it is found out once.
type entry struct {
	message Message
	digest  string
	head    string // digest of the conversation that ends with it; "": it is in none
	weight  weight

	asked bool // elision was
	short *entry
}

func newEntry(m Message) *entry {
	return &entry{message: m, digest: messageBlob(m).Digest, weight: weigh(m)}
}

func newConversation(messages []Message) *conversation {
	c := &conversation{}
	for _, m := range messages {
		c.append(m)
	}
	return c
}

func (c *conversation) append(m Message) {
	e := newEntry(m)
	before := noConversation
	if n := len(c.entries); n > 0 {
		before = c.entries[n-1].head
	}
	e.head = conversationHead(before, e.digest)
	c.entries = append(c.entries, e)
}

// headOf is the digest of the conversation as it is sent. Up to where it is cut, if
// it is, that is known.
func (c *conversation) headOf(sent cutting) string {
	head, whole := noConversation, true
	for i, e := range sent.entries {
		if whole = whole && e == c.entries[i]; whole {
			head = e.head
		} else {
			head = conversationHead(head, e.digest)
		}
	}
	return head
}

// elision is the message with a line in the place of its content: of a result that
// becomes smaller by that. Of others it is nil.
func (e *entry) elision() *entry {
	if e.asked || e.message.Role != FromTool {
		return e.short
	}
	e.asked = true
	bytes, digest := measure(e.message.Content)
	m := e.message
	m.Content = []Content{{Type: ContentText, Text: fmt.Sprintf("[%d bytes left out, %s]", bytes, digest)}}
	if weigh(m).tokens() < e.weight.tokens() {
		e.short = newEntry(m)
	}
	return e.short
}

// measure is how large a content is, and its digest.
func measure(list []Content) (int64, string) {
	if len(list) == 1 && list[0].Type == ContentText {
		return int64(len(list[0].Text)), flow.Digest([]byte(list[0].Text))
	}
	n := int64(0)
	for _, c := range list {
		n += int64(len(c.Text) + len(c.Data))
	}
	return n, flow.Digest(flow.JSON(list))
}

// Blob is a message as a document, named by its digest.
type Blob struct {
	Digest string
	Data   []byte
}

// noConversation is the digest of the conversation in which nobody has said anything.
var noConversation = flow.Digest([]byte("[]"))

// messageBlob is a message in canonical form, all its fields. Vendor blocks that
// have no canonical form stand as they came.
func messageBlob(m Message) Blob {
	text := flow.JSON(m)
	if canonical, err := canon.Form(text); err == nil {
		text = canonical
	}
	return Blob{flow.Digest(text), text}
}

// conversationHead is the digest of a conversation: of the one before it and of its
// last message.
func conversationHead(before, last string) string {
	return flow.Digest([]byte(`["` + before + `","` + last + `"]`)) // digests need no escapes
}

// HeadOf is the digest of a conversation.
func HeadOf(messages []Message) string {
	head := noConversation
	for _, m := range messages {
		head = conversationHead(head, messageBlob(m).Digest)
	}
	return head
}

// MessageBlobs are the messages themselves, in their order.
func MessageBlobs(messages []Message) []Blob {
	blobs := make([]Blob, len(messages))
	for i, m := range messages {
		blobs[i] = messageBlob(m)
	}
	return blobs
}
