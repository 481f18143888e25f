package agent

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gowebpki/jcs"

	"github.com/tipstaff/tipstaff/flow"
)

// Blob is a document that is named by its digest: a message, or a conversation.
type Blob struct {
	Digest string
	Data   []byte
}

// noConversation is the conversation in which nobody has said anything.
var noConversation = newBlob([]byte("[]"))

func newBlob(data []byte) Blob { return Blob{flow.Digest(data), data} }

// messageBlob is a message in canonical form, all its fields. Vendor blocks that
// have no canonical form stand as they came.
func messageBlob(m Message) Blob {
	text := flow.JSON(m)
	if canonical, err := jcs.Transform(text); err == nil {
		text = canonical
	}
	return newBlob(text)
}

// conversationBlob names a conversation by the one before it and by its last
// message, so that a conversation of n messages costs one more small document than
// the one of n-1.
func conversationBlob(before, last string) Blob {
	return newBlob([]byte(`["` + before + `","` + last + `"]`)) // digests need no escapes
}

// HeadOf is the digest of a conversation.
func HeadOf(messages []Message) string {
	head := noConversation.Digest
	for _, m := range messages {
		head = conversationBlob(head, messageBlob(m).Digest).Digest
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

// BlobsOf are the documents of a conversation's messages from the given index on:
// each message, and the conversation up to it. Those before are taken to be kept
// already.
func BlobsOf(messages []Message, from int) []Blob {
	return newConversation(messages).blobs(from)
}

// ReadConversation reads a conversation by its digest, given what was kept. A
// document that is not what its digest says is an error, and so is a conversation
// that is not valid.
func ReadConversation(head string, blob func(digest string) ([]byte, error)) ([]Message, error) {
	var messages []Message
	for head != noConversation.Digest {
		var link [2]string
		if err := readBlob(head, blob, &link); err != nil {
			return nil, fmt.Errorf("the conversation %s: %w", head, err)
		}
		var m Message
		if err := readBlob(link[1], blob, &m); err != nil {
			return nil, fmt.Errorf("the message %s: %w", link[1], err)
		}
		messages = append(messages, m)
		head = link[0]
	}
	slices.Reverse(messages)
	return messages, Valid(messages)
}

func readBlob(digest string, blob func(string) ([]byte, error), into any) error {
	data, err := blob(digest)
	if err != nil {
		return err
	}
	if flow.Digest(data) != digest {
		return fmt.Errorf("what is kept under this digest is something else")
	}
	return json.Unmarshal(data, into)
}
