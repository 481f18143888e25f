package tipstaff

// ValidateRequest is a request that is looked at and not carried out: one of the three.
type ValidateRequest struct {
	Start   *StartRequest   `json:"start,omitempty"`
	Draft   *DraftRequest   `json:"draft,omitempty"`
	Correct *CorrectRequest `json:"correct,omitempty"`
	Graph   string          `json:"graph,omitempty"` // draw the pipeline, as mermaid or dot; "": do not
	// Ask: inputs of a start that are missing are no problem, for they are still to be asked for.
	Ask bool `json:"ask,omitempty"`
}

// Validated is what is known of a program before there is a run.
type Validated struct {
	Program  Program   `json:"program"`            // kind, name and digest
	Outline  *Outline  `json:"outline"`            // the program as a tree, for views
	Warnings []Problem `json:"warnings,omitempty"` // of a program that can be run all the same
	Bounds   Bounds    `json:"bounds,omitempty"`   // that a run of it would have
	Graph    []byte    `json:"graph,omitempty"`
	// Inputs are those that a plan takes, in the order of the document.
	Inputs []SkillField `json:"inputs,omitempty"`
	// Corrected is what a correction would mean for its run; nil: none was asked about.
	Corrected *Corrected `json:"corrected,omitempty"`
	// Turn is that of a turn, and Tools are those that its agent may use. The session of
	// one that would begin another is known when it is started.
	Turn  *TurnStatus `json:"turn,omitempty"`
	Tools []ToolInfo  `json:"tools,omitempty"`
}
