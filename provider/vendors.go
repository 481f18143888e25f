package provider

// Vendor is how a vendor's models are reached by somebody who has configured nothing
// but a key in the environment.
type Vendor struct {
	Provider string   // the word for it in the manifest
	Keys     []string // variables that hold its key; the first that is set counts
	Model    string   // what is asked where nobody named a model
}

// Vendors are those who serve models themselves, in the order in which their keys are
// looked for.
func Vendors() []Vendor {
	return []Vendor{
		{Anthropic, []string{"ANTHROPIC_API_KEY"}, "claude-sonnet-5-5"},
		{OpenAI, []string{"OPENAI_API_KEY"}, "gpt-6.1-sol"},
		{Gemini, []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, "gemini-3.8-flash"},
	}
}
