package file

import (
	"cmp"
	"maps"
	"regexp"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/document"
)

// UnknownWindow is the context window of a model that nobody has described.
const UnknownWindow = 32_768

// Table says what models can do and what they cost. It is not changed once made.
type Table struct {
	Date   string           `doc:"date"`   // when it was written
	Models map[string]entry `doc:"models"` // by id, or by prefix with a * at its end
}

// entry describes a model. What it leaves out is unknown.
type entry struct {
	ContextWindow int   `doc:"context_window,max=1e8"` // tokens
	MaxOutput     int   `doc:"max_output,max=1e8"`     // tokens
	Images        *bool `doc:"images"`
	Structured    *bool `doc:"structured_output"`
	Sampling      *bool `doc:"sampling"` // false: it refuses temperature and top_p
	// Thinking is what of the manifest's setting the model takes; empty: it does not
	// think.
	Thinking []string `doc:"thinking,in=off|low|medium|high|tokens"`
	Price    *prices  `doc:"price"`
}

// ThinkingTokens stands for a number of tokens among what a model takes.
const ThinkingTokens = "tokens"

// prices are USD per million tokens.
type prices struct {
	Input        price `doc:"input,required"`
	Output       price `doc:"output,required"`
	CacheRead    price `doc:"cache_read"`     // "": as input
	CacheWrite   price `doc:"cache_write"`    // "": as input
	CacheWrite1h price `doc:"cache_write_1h"` // "": as cache_write
}

// price is a decimal, which is kept as it is written.
type price string

// ParseTable reads a table. Its error lists every problem with its place.
func ParseTable(name string, src []byte) (*Table, error) {
	t := &Table{Models: map[string]entry{}}
	if err := parse(name, "the table of models", src, t); err != nil {
		return nil, err
	}
	return t, nil
}

// CheckDocument checks the names of models.
func (t *Table) CheckDocument(f *document.Fields) {
	models := f.Get("models")
	if models == nil {
		return
	}
	for _, m := range models.Members {
		if star := strings.IndexByte(m.Key, '*'); m.Key == "" || star >= 0 && star != len(m.Key)-1 {
			f.Report(document.CodeRange, m.At, "models."+m.Key, "%q is not a name: it is a model's id, or a prefix that ends in *", document.Brief(m.Key))
		}
	}
}

// ReadDocument reads a price in quotes or without.
func (p *price) ReadDocument(f *document.Fields, name string, v *document.Value) {
	if _, ok := nanoUSD(v.Text); !ok || v.Kind != document.Text && v.Kind != document.Number {
		f.Report(document.CodeRange, v.At, name, "%q is not a price: write USD per million tokens as a decimal with at most 9 places, like \"0.25\"", document.Brief(v.Text))
	}
	*p = price(v.Text)
}

// Merge is t with the entries of over before its own. Of an entry that both have,
// what over leaves out stays as it is in t.
func (t *Table) Merge(over *Table) *Table {
	merged := &Table{Date: cmp.Or(over.Date, t.Date), Models: maps.Clone(t.Models)}
	if merged.Models == nil {
		merged.Models = map[string]entry{}
	}
	for id, e := range over.Models {
		merged.Models[id] = merged.Models[id].merge(e)
	}
	return merged
}

func (e entry) merge(over entry) entry {
	if over.Thinking == nil {
		over.Thinking = e.Thinking
	}
	return entry{
		ContextWindow: cmp.Or(over.ContextWindow, e.ContextWindow),
		MaxOutput:     cmp.Or(over.MaxOutput, e.MaxOutput),
		Images:        cmp.Or(over.Images, e.Images),
		Structured:    cmp.Or(over.Structured, e.Structured),
		Sampling:      cmp.Or(over.Sampling, e.Sampling),
		Thinking:      over.Thinking,
		Price:         cmp.Or(over.Price, e.Price),
	}
}

// Caps is what the table says of a model. long: it is asked to keep its cache for an
// hour, which has a price of its own.
func (t *Table) Caps(model string, long bool) agent.Caps { return t.find(model).caps(long) }

// Sampling tells whether a model takes temperature and top_p, as far as the table
// knows.
func (t *Table) Sampling(model string) bool {
	e := t.find(model)
	return e.Sampling == nil || *e.Sampling
}

// Thinking is what a model takes of the setting for it; nil: the table does not know.
func (t *Table) Thinking(model string) []string { return t.find(model).Thinking }

// find is the entry of a model: its own, else that of the longest prefix.
func (t *Table) find(model string) entry {
	if e, ok := t.Models[model]; ok {
		return e
	}
	best := ""
	for id := range t.Models {
		prefix, ok := strings.CutSuffix(id, "*")
		if ok && strings.HasPrefix(model, prefix) && len(id) > len(best) {
			best = id
		}
	}
	return t.Models[best]
}

func (e entry) caps(long bool) agent.Caps {
	caps := agent.Caps{
		ContextWindow:    cmp.Or(e.ContextWindow, UnknownWindow),
		MaxOutput:        e.MaxOutput,
		Images:           e.Images != nil && *e.Images,
		StructuredOutput: e.Structured != nil && *e.Structured,
	}
	if e.Price != nil {
		caps.Price = e.Price.price(long)
	}
	return caps
}

func (p prices) price(long bool) *agent.Price {
	or := func(text price, otherwise int64) int64 {
		if n, ok := nanoUSD(string(text)); ok {
			return n
		}
		return otherwise
	}
	price := &agent.Price{Input: or(p.Input, 0), Output: or(p.Output, 0)}
	price.CacheRead = or(p.CacheRead, price.Input)
	price.CacheWrite = or(p.CacheWrite, price.Input)
	if long {
		price.CacheWrite = or(p.CacheWrite1h, price.CacheWrite)
	}
	return price
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,5})(\.[0-9]{1,9})?$`)

// nanoUSD is a decimal amount of USD in 10⁻⁹ USD.
func nanoUSD(text string) (int64, bool) {
	if !decimal.MatchString(text) {
		return 0, false
	}
	amount, err := tipstaff.ParseBound(tipstaff.BoundCostUSD, text)
	return amount, err == nil
}
