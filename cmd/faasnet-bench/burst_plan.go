package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
)

// burstPlan is what is measured: rows of one plan are repetitions.
type burstPlan struct {
	System       string `json:"system"`
	Recorded     bool   `json:"recorded,omitempty"` // the image is a recorded conversion
	VMs          int    `json:"vms"`
	Rate         string `json:"rate"`
	RegistryRate string `json:"registry_rate"`
	Image        string `json:"image"`
	Form         string `json:"form,omitempty"`
	Stripes      int    `json:"stripes,omitempty"`
	Full         bool   `json:"full,omitempty"`
	Kill         kill   `json:"kill,omitzero"`
}

func (p burstPlan) String() string {
	s := fmt.Sprintf("%d VMs, %s", p.VMs, p.called())
	if p.Stripes > 0 {
		s += ", " + p.Form
	}
	if p.Kill != (kill{}) {
		s += fmt.Sprintf(", %v", p.Kill)
	}
	return s
}

func (p burstPlan) called() string { return called(p.System, p.Recorded) }

// burstsOf reads the flags and refuses what cannot be measured here.
func burstsOf(c *cli.Context) (*bursts, error) {
	b := &bursts{site: site{image: c.String("image"), progress: os.Stderr}, draw: c.Bool("draw"), timeout: c.Duration("timeout"), report: c.App.Writer, told: map[string]bool{}}
	if err := checkImage(b.image); err != nil {
		return nil, err
	}
	on, err := onOff(c, "tree")
	if err != nil {
		return nil, err
	}
	if b.background, err = onOff(c, "background"); err != nil {
		return nil, err
	}
	systems := c.StringSlice("systems")
	if !on {
		systems = slices.DeleteFunc(slices.Clone(systems), func(s string) bool { return s == withTree })
	}
	kills := []kill{{}}
	for i, text := range c.StringSlice("kill") {
		k, err := parseKill(text)
		if err != nil {
			return nil, err
		}
		kills = append(kills[:i], k)
	}
	template := burstPlan{Image: b.image, Rate: c.String("rate"), RegistryRate: cmp.Or(c.String("registry-rate"), c.String("rate")), Full: c.Bool("full")}
	for _, template.Kill = range kills {
		all, err := template.each(c, c.IntSlice("vms"), systems, c.IntSlice("stripes"))
		if err != nil {
			return nil, err
		}
		b.plan = append(b.plan, all...)
	}
	return b, nil
}

// each gives the plan's variants, systems innermost: one for each number of VMs
// and system, of ours one for each conversion, and with a tree one for each number
// of stripes. None is an error, and one that this machine cannot carry.
func (p burstPlan) each(c *cli.Context, vms []int, systems []string, stripes []int) (all []burstPlan, err error) {
	for _, p.VMs = range vms {
		for _, p.System = range systems {
			some, err := p.ofSystem(c, stripes)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	if len(all) == 0 {
		return nil, usagef("no systems, or no VMs")
	}
	for _, p := range all {
		if err := p.check(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (p burstPlan) ofSystem(c *cli.Context, stripes []int) (all []burstPlan, err error) {
	s, err := rivals.Find(p.System)
	if err != nil {
		return nil, usage(err)
	}
	for _, p.Recorded = range variantsOf(c).of(s.Ours) {
		if !s.Tree {
			all = append(all, p)
			continue
		}
		for _, p.Stripes = range stripes {
			if p.Form, err = formOf(p.Stripes, c.String("form")); err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// rivalsOf finds systems by name.
func rivalsOf(names []string) (all []rivals.System, err error) {
	for _, name := range names {
		s, err := rivals.Find(name)
		if err != nil {
			return nil, usage(err)
		}
		all = append(all, s)
	}
	return all, nil
}

func onOff(c *cli.Context, name string) (bool, error) {
	switch v := c.String(name); v {
	case "on", "off":
		return v == "on", nil
	default:
		return false, usagef("--%s %q is neither on nor off", name, v)
	}
}

// formOf names the coordinator's form of trees with so many stripes.
func formOf(stripes int, form string) (string, error) {
	switch {
	case stripes == 2:
		return "striped", nil
	case stripes == 1 && (form == "" || form == "complete" || form == "rotate"):
		return cmp.Or(form, "complete"), nil
	}
	return "", usagef("--stripes %d --form %q: want 2 stripes, or 1 in the form complete or rotate", stripes, form)
}
