package pipeline

import (
	_ "embed"
	"encoding/json"
)

//go:embed schema.json
var documentSchema []byte

// Schema is a JSON Schema of pipeline documents, for editors. It says which fields
// there are and what they hold; that names fit together is for [Check] to say.
func Schema() json.RawMessage { return json.RawMessage(documentSchema) }
