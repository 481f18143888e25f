package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"
	"strconv"
	"strings"
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
	e.slots.look(e)
	b := append(e.slots.room[:0], '[')
	b = append(b, e.slots.input.name...)
	b = appendField(append(b, ','), reflect.ValueOf(e.Metadata))
	b = appendText(append(b, ','), e.Pipeline)
	b = appendText(append(b, ','), e.PipelineDigest)
	b = appendTexts(append(b, ','), e.StageOrder)
	b = appendText(append(b, ','), e.CurrentStage)
	b = strconv.AppendInt(append(b, ','), e.Epoch, 10)
	for _, stages := range [][]string{e.Frontier, e.ActiveStages, e.CompletedStages} {
		b = appendTexts(append(b, ','), stages)
	}
	for _, field := range []reflect.Value{reflect.ValueOf(e.FailedStages), reflect.ValueOf(e.SkippedStages), reflect.ValueOf(e.Goals)} {
		b = appendField(append(b, ','), field)
	}
	b = strconv.AppendInt(append(b, ','), e.CurrentStageNumber, 10)
	for _, field := range []reflect.Value{reflect.ValueOf(e.Rounds), reflect.ValueOf(e.Feedback), reflect.ValueOf(e.Waivers)} {
		b = appendField(append(b, ','), field)
	}
	for _, slots := range [][]slot{e.slots.outputs, e.slots.prior} {
		b = appendSlots(append(b, ','), slots)
	}
	e.slots.room = append(b, ']')
	return digest(e.slots.room)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// slotCache remembers what encoding the slots of an Envelope gave.
type slotCache struct {
	outputs, prior []slot // by their keys
	input          slot   // the raw input
	raw            string
	room           []byte // in which the data is encoded
}

// slot is one, as it was when it was last looked at.
type slot struct {
	key  string
	of   map[string]any
	name string // its digest, in JSON
	size int
}

func newSlot(key string, object map[string]any) slot {
	if object == nil {
		return slot{key: key, name: `""`, size: len("null")}
	}
	b := AppendValue(nil, object)
	return slot{key: key, of: object, name: nameOf(b), size: len(b)}
}

// nameOf is the digest of b as it stands in what is digested.
func nameOf(b []byte) string { return `"` + digest(b) + `"` }

// look finds out what has changed.
func (c *slotCache) look(e *Envelope) {
	c.outputs, c.prior = looked(c.outputs, e.Outputs), looked(c.prior, e.Prior)
	if c.input.name == "" || c.raw != e.RawInput {
		b := appendText(nil, e.RawInput)
		c.raw, c.input = e.RawInput, slot{name: nameOf(b), size: len(b)}
	}
}

// looked is what is known, brought up to date.
func looked(known []slot, slots map[string]map[string]any) []slot {
	now := known[:0]
	for _, s := range known {
		object, there := slots[s.key]
		if !there {
			continue
		}
		if !identical(object, s.of) {
			s = newSlot(s.key, object)
		}
		now = append(now, s)
	}
	clear(known[len(now):])
	if len(now) == len(slots) {
		return now
	}
	had := now
	for key, object := range slots {
		if _, known := slices.BinarySearchFunc(had, key, func(s slot, key string) int { return strings.Compare(s.key, key) }); !known {
			now = append(now, newSlot(key, object))
		}
	}
	slices.SortFunc(now, func(a, b slot) int { return strings.Compare(a.key, b.key) })
	return now
}

// identical tells whether two are the very same object.
func identical(a, b map[string]any) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// appendSlots appends slots by their digests.
func appendSlots(b []byte, slots []slot) []byte {
	b = append(b, '{')
	for i, s := range slots {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, s.key), ':')
		b = append(b, s.name...)
	}
	return append(b, '}')
}

func appendTexts(b []byte, list []string) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	return appendEach(b, list, appendText)
}

func orNull(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}
