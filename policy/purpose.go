package policy

import (
	"encoding/json"
	"slices"
)

// successCriteriaChanged finds that something else is wanted: another verb, other
// objects, another idea of success.
func (c change) successCriteriaChanged() []string {
	var details []string
	if c.old.Verb != c.new.Verb {
		details = append(details, became("the verb", c.old.Verb, c.new.Verb))
	}
	gone, added := differ(asTexts(c.old.Criteria), asTexts(c.new.Criteria))
	for _, criterion := range gone {
		details = append(details, "the success criterion "+briefly(criterion)+" is gone")
	}
	for _, criterion := range added {
		details = append(details, "the success criterion "+briefly(criterion)+" is new")
	}
	return append(details, c.otherObjects()...)
}

func asTexts(list []json.RawMessage) []string {
	texts := make([]string, len(list))
	for i, raw := range list {
		texts[i] = string(raw)
	}
	return texts
}

// otherObjects pairs what is gone with what is new by name, to say what became of
// it.
func (c change) otherObjects() []string {
	var details []string
	gone, added := differ(c.old.Objects, c.new.Objects)
	for _, old := range gone {
		i := slices.IndexFunc(added, func(o Object) bool { return o.Name == old.Name })
		if i < 0 {
			details = append(details, "the object "+briefly(old.Name)+" is gone")
			continue
		}
		details = append(details, old.changes(added[i])...)
		added = slices.Delete(added, i, i+1)
	}
	for _, o := range added {
		details = append(details, "the object "+briefly(o.Name)+" is new")
	}
	return details
}

// changes are what became of an object; its name has stayed.
func (o Object) changes(new Object) []string {
	var details []string
	for _, f := range [...]struct{ name, old, new string }{
		{"value", o.Value, new.Value}, {"uri", o.URI, new.URI}, {"type", o.Type, new.Type},
	} {
		if f.old != f.new {
			details = append(details, became("the "+f.name+" of the object "+briefly(o.Name), f.old, f.new))
		}
	}
	return details
}
