package tipstaff

import "strings"

// deliveryPath is where a view keeps the delivery. No program has such a place: a stage may
// be called deliver, and its paths then have a visit.
const deliveryPath = "deliver/"

func ofDelivery(path string) bool { return path == "deliver" || strings.HasPrefix(path, deliveryPath) }

// delivery is the node of what becomes of the changes. It appears when there is something
// to tell: the worktree that a run begins with is no news.
func (v *View) delivery() *Node {
	n := v.byPath[deliveryPath]
	if n == nil {
		n = &Node{Path: deliveryPath, Name: "delivery", outlined: true}
		v.byPath[deliveryPath] = n
		v.Roots = append(v.Roots, n)
	}
	return n
}

// applyDelivery takes in what is done to hand over the changes.
func (v *View) applyDelivery(e *Event) bool {
	if !ofDelivery(e.Path) || e.Kind == KindGateTaken {
		return false
	}
	switch e.Kind {
	case KindEffectIntended:
		v.delivery().State = NodeRunning
	case KindCheckFinished:
		b := BodyOf[CheckFinished](e)
		result := " passed"
		if !b.Passed(b.Tree) {
			result = " failed"
		}
		n := v.delivery()
		n.Note = Joined(", ", n.Note, "check "+b.Name+result)
	case KindSetupFinished:
		b := BodyOf[SetupFinished](e)
		if b.In == InClean || b.Passed(b.Tree) { // else it is a line to look at while it runs, and no news after
			return true
		}
		n := v.delivery()
		n.Note = Joined(", ", n.Note, b.Phase+" failed: "+strings.Join(b.Argv, " "))
	case KindDiffRecorded:
		b := BodyOf[DiffRecorded](e)
		n := v.delivery()
		if n.Note = Joined(", ", n.Note, CountOfChanges(b.Files, b.Added, b.Removed)); b.Files == 0 {
			n.State, n.Note = NodeSkipped, "nothing has changed"
		}
	case KindDeliveryCommitted:
		v.delivery().handedOver(e, strings.TrimPrefix(BodyOf[DeliveryCommitted](e).Branch, "refs/heads/"))
	case KindDeliveryApplied:
		v.delivery().handedOver(e, "the changes are in the checkout")
	case KindDeliverySkipped:
		v.delivery().handedOver(e, "not delivered")
	}
	return true
}

func (n *Node) handedOver(e *Event, note string) { n.State, n.Ended, n.Note = NodeDone, e.At, note }
