package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
)

// DataDigest names the data of a run: the groups input, state and progress without
// times, identity, counters and records. Two runs that stand at the same place with
// the same data have one digest, whatever it took them to come there.
//
// It is SHA-256 of the canonical encoding of a list of these fields, in which the raw
// input and every slot of outputs and prior stand as digests of their own. So it
// costs what has changed since it was last asked for: slots are replaced, never
// changed in place, and their digests are remembered.
func (e *Envelope) DataDigest() string {
	e.slots.forget(e.Outputs, e.Prior)
	b := append(make([]byte, 0, 1024), '[')
	next := func() { b = append(b, ',') }
	b = appendText(b, e.slots.text(e.RawInput))
	for _, field := range []any{
		e.Metadata, e.Pipeline, e.PipelineDigest, e.StageOrder,
		e.CurrentStage, e.Epoch, e.Frontier, e.ActiveStages, e.CompletedStages, e.FailedStages, e.SkippedStages,
		e.Goals, e.CurrentStageNumber, e.Rounds, e.Feedback, e.Waivers,
	} {
		next()
		b = appendField(b, reflect.ValueOf(field))
	}
	for _, slots := range []map[string]map[string]any{e.Outputs, e.Prior} {
		next()
		b = e.slots.append(b, slots)
	}
	return digest(append(b, ']'))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// slotCache remembers what encoding a slot gave, by the very object it was given.
type slotCache struct {
	known map[uintptr]slot // by the address of the object, which the slot keeps alive
	input slot             // the raw input
	raw   string
}

type slot struct {
	of     map[string]any
	digest string
	size   int
}

// of is what is known about a slot, now if it was not before.
func (c *slotCache) of(object map[string]any) slot {
	if object == nil {
		return slot{digest: "", size: len("null")}
	}
	address := reflect.ValueOf(object).Pointer()
	if s, ok := c.known[address]; ok {
		return s
	}
	b := AppendValue(nil, object)
	s := slot{of: object, digest: digest(b), size: len(b)}
	if c.known == nil {
		c.known = map[uintptr]slot{}
	}
	c.known[address] = s
	return s
}

// text is the digest of the raw input.
func (c *slotCache) text(raw string) string {
	if c.input.digest == "" || c.raw != raw {
		b := appendText(nil, raw)
		c.raw, c.input = raw, slot{digest: digest(b), size: len(b)}
	}
	return c.input.digest
}

// append appends slots by their digests.
func (c *slotCache) append(b []byte, slots map[string]map[string]any) []byte {
	b = append(b, '{')
	for i, key := range sortedKeys(slots) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, key), ':')
		b = appendText(b, c.of(slots[key]).digest)
	}
	return append(b, '}')
}

// forget drops slots that the Envelope has no longer, once there are many of them.
func (c *slotCache) forget(outputs, prior map[string]map[string]any) {
	if len(c.known) <= 2*(len(outputs)+len(prior))+8 {
		return
	}
	kept := make(map[uintptr]slot, len(outputs)+len(prior))
	for _, slots := range []map[string]map[string]any{outputs, prior} {
		for _, object := range slots {
			address := reflect.ValueOf(object).Pointer()
			if s, ok := c.known[address]; ok {
				kept[address] = s
			}
		}
	}
	c.known = kept
}

func orNull(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}
