package plan

import "github.com/tipstaff/tipstaff/document"

// readTools is an allow-list: a list of URIs, or the word none. nil: absent, which
// is another thing than empty.
func readTools(f *document.Fields) (*[]string, []document.Position) {
	v := f.Get("tools")
	if v == nil {
		return nil, nil
	}
	if v.Kind == document.Text && v.Text == "none" {
		return &[]string{}, nil
	}
	if v.Kind == document.Text {
		f.Report(document.CodeFieldInvalid, v.At, "tools", "tools is %q; it must be a list of tool URIs, or none", document.Brief(v.Text))
		return &[]string{}, nil
	}
	list, at := f.Texts("tools")
	if list == nil {
		list = []string{}
	}
	return &list, at
}
