package pipeline

import "encoding/json"

// perVisit is more than what one visit adds to the lists of an Envelope, its texts
// not counted.
const perVisit = 2048

// measure makes sure that the size is known well enough to decide by. What was added
// is only ever added up; the whole is measured again when that has come to much.
func (x *executor) measure() {
	if x.size == 0 || x.size > MaxEnvelope/2 {
		x.size = x.env.Size()
	}
}

// grow counts what a visit adds to the Envelope.
func (x *executor) grow(v *stint) {
	x.size += perVisit + len(v.control.Feedback) + len(v.control.Summary)
	if v.status == statusSuccess {
		x.size += len(v.encoded) + len(EncodeValue(v.control.Metadata))
	}
	if v.failure != nil {
		x.size += 3 * len(v.failure.Message)
	}
	if i := v.control.Interrupt; i != nil {
		x.size += len(i.Question) + len(i.Message) + len(EncodeValue(i.Data))
	}
}

// fits reports whether the Envelope can take an output beside what it has. Branches
// of a batch ask at once, so nothing is changed here.
func (x *executor) fits(encoded json.RawMessage) bool {
	return x.size+len(encoded) <= MaxEnvelope
}

// dataSize is how many bytes the data of the run has: its input, metadata and slots.
func (x *executor) dataSize() int {
	e := x.env
	size := len(e.RawInput) + len(EncodeValue(e.Metadata))
	digests(x.slots.outputs, e.Outputs)
	digests(x.slots.prior, e.Prior)
	for key := range e.Outputs {
		size += x.slots.outputs[key].size
	}
	for key := range e.Prior {
		size += x.slots.prior[key].size
	}
	return size
}
