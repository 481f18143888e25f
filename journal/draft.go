package journal

// draftKind is the envelope that creates a run. It publishes the keys that may
// sign the run's envelopes and, of a fork, the record it continues from.
const draftKind = "intent.draft"

// Fork is the record of another run after which a fork goes on.
type Fork struct {
	Run  string
	Seq  int64
	Hash Hash // of that run's chain at Seq
}

// draft is what a verifier needs of an intent.draft.
type draft struct {
	user, executor PublicKey // zero where the body publishes none
	fork           *Fork     // nil: the run is no fork
}

// readDraft takes what is readable: a draft with a fault must still say which
// keys were meant, or every later envelope would be blamed for it.
func readDraft(body []byte) draft {
	var d draft
	for name, m := range members(body) {
		switch v := body[m.Start:m.End]; name {
		case "keys":
			d.user, d.executor = readKeys(v)
		case "fork_of":
			d.fork = readFork(v)
		}
	}
	return d
}

func readKeys(b []byte) (user, executor PublicKey) {
	for name, m := range members(b) {
		s, _ := stringValue(b[m.Start:m.End])
		key, err := ParsePublicKey(s)
		if err != nil {
			continue
		}
		switch name {
		case User:
			user = key
		case Executor:
			executor = key
		}
	}
	return user, executor
}

// forkFields are those of fork_of.
var forkFields = parseShape(`run:name seq:seq hash:digest`)

// readFork takes all of fork_of or nothing: half a base cannot be compared.
func readFork(b []byte) *Fork {
	if checkObject("", b, forkFields) != nil {
		return nil
	}
	var f Fork
	for name, m := range members(b) {
		v := b[m.Start:m.End]
		s, _ := stringValue(v)
		switch name {
		case "run":
			f.Run = s
		case "seq":
			f.Seq, _ = wholeNumber(v)
		case "hash":
			f.Hash, _ = ParseHash(s)
		}
	}
	return &f
}
