package page

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

const (
	shownBytes = 256 << 10 // of a record or a file that is shown, the first
	nearMost   = 2000      // records on either side among which neighbours are looked for
	nodesMost  = 800       // of the tree of a record
	depthMost  = 12
)

// recordPage is one record.
type recordPage struct {
	*runView
	said
	Record     tipstaff.Event
	Group      string
	Bytes      string // as stored
	Cut        int    // bytes that are not shown
	Tree       node
	Chained    bool // the store tells its hash
	Before     string
	Fits       bool // hash and previous hash fit
	OnBehalfOf string
	Via        string
	Gate       string // that it opens or closes
	Pair       int64  // the record that closes or opens that gate; 0: not near
	PrevSame   int64  // of the same path; 0: not near
	NextSame   int64
	Near       int64 // how far was looked for those
}

// record shows one record, or hands it out as it is stored.
func (v *view) record() error {
	seq, err := strconv.ParseInt(v.r.PathValue("seq"), 10, 64)
	if err != nil || seq < 1 || seq > v.run.HeadSeq {
		return &problem{status: http.StatusNotFound, title: "There is no such record", text: "This run has records 1 to " + thousands(v.run.HeadSeq) + "."}
	}
	low := max(0, seq-2)
	near, err := v.block(low, seq-low)
	if err != nil {
		return err
	}
	if len(near) == 0 || near[len(near)-1].Seq != seq {
		return &problem{status: http.StatusNotFound, title: "There is no such record", text: "The journal has a gap here. Verify the run."}
	}
	e := near[len(near)-1]
	if v.r.FormValue("raw") != "" {
		return v.download("record-"+strconv.FormatInt(seq, 10)+".json", e.Stored())
	}
	page := recordPage{runView: v.about(), Record: e, said: sentence(&e), Group: groupOf(e.Kind), Tree: valueTree(e.Body), Near: nearMost}
	page.Bytes, page.Cut = headOf(e.Stored())
	var before tipstaff.Event
	if len(near) > 1 {
		before = near[0]
	}
	page.Chained, page.Before = !e.Hash.IsZero(), before.Hash.String()
	page.Fits = before.Hash.Next(e.Stored()) == e.Hash && (!e.Kind.Envelope() || e.Head == before.Hash.String())
	behalf := tipstaff.BodyOf[tipstaff.Behalf](&e)
	page.OnBehalfOf, page.Via = behalf.OnBehalfOf, behalf.Via
	if err := v.neighbours(&page); err != nil {
		return err
	}
	return v.show("record", "Record "+v.r.PathValue("seq")+" · "+nameOf(v.run), page)
}

// Previous and Next are the neighbours in the journal.
func (p recordPage) Previous() int64 { return p.Record.Seq - 1 }

// Next is the record after it.
func (p recordPage) Next() int64 { return p.Record.Seq + 1 }

// gateOf is the gate that a record opens or closes.
func gateOf(e *tipstaff.Event) string {
	switch {
	case e.Kind.OpensGate():
		return tipstaff.BodyOf[tipstaff.GateOpened](e).Gate
	case e.Kind.ClosesGate():
		return tipstaff.BodyOf[tipstaff.GateResolved](e).Gate
	}
	return ""
}

// neighbours finds the records before and after of the same path, and the other end of a gate,
// as far as they are near: a long journal is not read for them.
func (v *view) neighbours(page *recordPage) error {
	at := &page.Record
	page.Gate = gateOf(at)
	low := max(0, at.Seq-1-nearMost)
	around, err := v.block(low, min(v.run.HeadSeq, at.Seq+nearMost)-low)
	if err != nil {
		return err
	}
	for i := range around {
		e := &around[i]
		switch {
		case e.Seq == at.Seq:
			continue
		case e.Path == at.Path && e.Seq < at.Seq:
			page.PrevSame = e.Seq
		case e.Path == at.Path && page.NextSame == 0:
			page.NextSame = e.Seq
		}
		if page.Gate != "" && e.Kind.OpensGate() != at.Kind.OpensGate() && gateOf(e) == page.Gate {
			page.Pair = e.Seq
		}
	}
	return nil
}

// headOf is what is shown of bytes, and how many are not.
func headOf(b []byte) (string, int) {
	if len(b) <= shownBytes {
		return string(b), 0
	}
	return string(b[:shownBytes]), len(b) - shownBytes
}

// node is a value of JSON as a tree.
type node struct {
	Name     string
	Value    string // of a leaf
	Long     bool   // it is text of several lines, or much of it
	Blob     string // the digest of a payload that is kept beside the record
	Count    int    // members or elements
	Children []node
	Left     bool // something is left out below
}

// IsLeaf reports whether nothing is below it.
func (n node) IsLeaf() bool { return n.Count == 0 }

// valueTree reads a value, in the order of its bytes, as far as people can follow it.
func valueTree(raw json.RawMessage) node {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	left := nodesMost
	n, err := readNode(d, "body", 0, &left)
	if err != nil && err != io.EOF {
		n.Left = true
	}
	return n
}

// readNode reads the next value. Beyond the limits it is read and not kept.
func readNode(d *json.Decoder, name string, depth int, left *int) (n node, err error) {
	n.Name = name
	*left--
	t, err := d.Token()
	if err != nil {
		return n, err
	}
	open, is := t.(json.Delim)
	if !is {
		n.leaf(t)
		return n, nil
	}
	for d.More() {
		key := ""
		if open == '{' {
			t, err := d.Token()
			if err != nil {
				return n, err
			}
			key, _ = t.(string)
		} else {
			key = strconv.Itoa(n.Count + 1)
		}
		n.Count++
		child, err := readNode(d, key, depth+1, left)
		if *left > 0 && depth < depthMost {
			n.Children = append(n.Children, child)
		} else {
			n.Left = true
		}
		if err != nil {
			return n, err
		}
	}
	if _, err = d.Token(); err != nil {
		return n, err
	}
	if n.Count == 0 {
		n.Value = map[json.Delim]string{'{': "{}", '[': "[]"}[open]
	}
	if len(n.Children) == 2 && n.Children[0].Name == "$blob" {
		n = node{Name: name, Blob: n.Children[0].Value}
	}
	return n, nil
}

// leaf sets the value of a leaf.
func (n *node) leaf(t json.Token) {
	switch t := t.(type) {
	case nil:
		n.Value = "null"
	case string:
		n.Value = cut(t, 4000)
		n.Long = len(t) > 120 || strings.Contains(t, "\n")
	case json.Number:
		n.Value = t.String()
	case bool:
		n.Value = strconv.FormatBool(t)
	}
}
