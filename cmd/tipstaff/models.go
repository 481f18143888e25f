package main

import (
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// openModel makes the model that a manifest declares, with the prices of its
// models_file before those that come with Tipstaff.
func openModel(c ws.Model, prices ws.File) (agent.Model, error) {
	config := provider.Config{
		Provider: c.Provider, Model: c.Model, APIKey: c.APIKey, BaseURL: c.BaseURL, AllowHTTP: c.AllowHTTP,
		ContextWindow: c.ContextWindow, Cache: c.Cache, Script: []byte(c.Script.Text), ScriptName: c.Script.Name,
	}
	if prices.Name != "" {
		own, err := provider.ParseTable(prices.Name, []byte(prices.Text))
		if err != nil {
			return nil, err
		}
		config.Prices = provider.DefaultTable().Merge(own)
	}
	return provider.Open(config)
}
