package prompts

// SystemData is what system.md may use.
type SystemData struct {
	Agent string // whose turn it is
}

// RouterData is what router.md may use.
type RouterData struct {
	Toolkits []RouterToolkit
	Example  []string // names to show the form of an answer with
}

// RouterToolkit is one that can be chosen.
type RouterToolkit struct {
	Name        string
	Description string   // "": none
	Tools       []string // names
	Always      bool     // chosen whatever the answer
}

// StepData is what step.md may use.
type StepData struct {
	Skill  string // the skill's prose; "": none
	Prompt string
	Inputs any // nil: none
}

// StageData is what stage.md may use.
type StageData struct {
	Pipeline, Stage string
	Visit           int // from 1
	Prompt          string
	View            any
	Feedback        string // of the edge that led here; "": none
}

// DraftData is what draft.md may use.
type DraftData struct {
	Message string
	Answers []DraftAnswer // to what was asked before

	Skill     string // URI
	Prose     string
	Tools     []DraftTool
	SubSkills []string // URIs
	Inputs    any      // by name
	Outputs   any      // JSON Schema by name
	Bounds    any      // by name
	Memories  []string

	Problems []string // of the last answer; nil: this is the first try
	Reply    string   // how that answer began
}

// DraftAnswer is a question and what the user said to it.
type DraftAnswer struct {
	Question string
	Answer   any
}

// DraftTool is a tool that the plan may use.
type DraftTool struct {
	URI, Class, Description string
	Schema                  any // of its arguments
}

// sample is data in which everything is set. A template that cannot be rendered
// with it could never be, or only by chance.
func sample(n Name) any {
	switch n {
	case System:
		return SystemData{"default"}
	case Router:
		return RouterData{[]RouterToolkit{{"files", "about files", []string{"read_file"}, true}}, []string{"files"}}
	case Step:
		return StepData{"prose", "Summarise.", map[string]any{"text": "a"}}
	case Stage:
		return StageData{"review", "critic", 1, "Criticise.", map[string]any{"draft": "a"}, "more"}
	case Draft:
		return DraftData{
			"Copy the note.", []DraftAnswer{{"Where to?", "out"}},
			"skill://notes@1.0.0", "prose", []DraftTool{{"mcp://builtin/read_file@1.0.0", "read", "reads", map[string]any{}}},
			[]string{"skill://other@1.0.0"}, map[string]any{}, map[string]any{}, map[string]any{}, []string{"a memory"},
			[]string{"a problem"}, "{",
		}
	}
	return nil
}
