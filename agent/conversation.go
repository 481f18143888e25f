package agent

import (
	"fmt"

	"github.com/tipstaff/tipstaff/flow"
)

// conversation is a list of messages, and what they and the conversation up to each
// of them are named by.
type conversation struct {
	entries []*entry
	heads   []string  // digests
	list    []Message // only ever grows: parts of it are handed out
}

// entry is a message and what is known of it, so that it is found out once.
type entry struct {
	message Message
	digest  string
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
	c.heads = append(c.heads, conversationHead(c.head(), e.digest))
	c.entries = append(c.entries, e)
	c.list = append(c.list, m)
}

func (c *conversation) messages() []Message { return c.list[:len(c.list):len(c.list)] }

// sent are the messages of a cutting. Of a long conversation that fits, and most do,
// no copy is made.
func (c *conversation) sent(cut cutting) []Message {
	if cut.Cut == (Cut{}) {
		return c.messages()
	}
	return cut.messages()
}

func (c *conversation) head() string {
	if n := len(c.heads); n > 0 {
		return c.heads[n-1]
	}
	return noConversation
}

// headOf is the digest of the conversation as it is sent. It is cut somewhere, if at
// all: what comes before that has a name already.
func (c *conversation) headOf(sent cutting) string {
	if sent.Cut == (Cut{}) {
		return c.head()
	}
	same := 0
	for same < len(sent.entries) && sent.entries[same] == c.entries[same] {
		same++
	}
	head := noConversation
	if same > 0 {
		head = c.heads[same-1]
	}
	for _, e := range sent.entries[same:] {
		head = conversationHead(head, e.digest)
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
