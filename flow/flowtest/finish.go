package flowtest

import (
	"github.com/tipstaff/tipstaff/flow"
)

// finish writes what a runner writes when a run ends.
func (r *rig) finish(out flow.Outcome) ([]flow.Draft, error) {
	var drafts []flow.Draft
	records, _ := r.bed.Records(r.run)
	for _, g := range journal(records).open() {
		drafts = append(drafts, flow.Draft{Kind: "policy.gate.resolve", Path: g.Key, From: "executor", Body: flow.JSON(map[string]any{
			"gate": g.Gate, "action": g.Deny, "subject_digest": g.Digest, "via": "run_ended", "on_behalf_of": "system:run_ended",
		})})
	}
	evidence := map[string]any{
		"program_digest": flow.Digest(nil), "revision": 1, "counts": map[string]int{}, "skipped": []string{}, "continued": []string{},
		"in_doubt": append([]string{}, out.InDoubt...), "tools": []string{}, "lifecycle": []string{},
		"bounds": map[string]any{"used": some(out.Used), "limit": some(out.Limit)},
	}
	body := map[string]any{"cited": []string{}, "evidence": evidence}
	end := flow.Draft{From: "executor", Beside: r.beside}
	switch out.Status {
	case flow.Completed:
		end.Kind = "intent.attest"
		body["outcome"], body["outputs_digest"] = "success", flow.Digest(out.Value)
	case flow.Failed:
		end.Kind = "intent.fail"
		body["reason"], body["message"] = "internal", out.Err.Error()
	case flow.Cancelled:
		end.Kind = "intent.cancel"
		body["reason"], body["via"], body["on_behalf_of"] = "test", "command", "local:cli"
	}
	end.Body = flow.JSON(body)
	return append(drafts, end), nil
}

func some(u flow.Use) flow.Use {
	if u == nil {
		return flow.Use{}
	}
	return u
}
