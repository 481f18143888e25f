package agent

import (
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// Blob is a message as a document, named by its digest.
type Blob struct {
	Digest string
	Data   []byte
}

// noConversation is the digest of the conversation in which nobody has said anything.
var noConversation = flow.Digest([]byte("[]"))

func newBlob(data []byte) Blob { return Blob{flow.Digest(data), data} }

// messageBlob is a message in canonical form, all its fields. Vendor blocks that
// have no canonical form stand as they came.
func messageBlob(m Message) Blob {
	text := flow.JSON(m)
	if canonical, err := canon.Form(text); err == nil {
		text = canonical
	}
	return newBlob(text)
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
