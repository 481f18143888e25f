package provider

import (
	_ "embed"
	"fmt"
	"sync"

	"github.com/tipstaff/tipstaff/provider/file"
)

// Table says what models can do and what they cost.
type Table = file.Table

//go:embed models.yaml
var modelsYAML []byte

var defaultTable = sync.OnceValue(func() *Table {
	t, err := ParseTable("models.yaml", modelsYAML)
	if err != nil {
		panic(fmt.Sprintf("provider: the embedded table: %v", err))
	}
	return t
})

// DefaultTable is the table that comes with Tipstaff.
func DefaultTable() *Table { return defaultTable() }

// ParseTable reads a table. Its error lists every problem with its place.
func ParseTable(name string, src []byte) (*Table, error) { return file.ParseTable(name, src) }
