package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

func treesCommand() *cli.Command {
	return &cli.Command{
		Name:  "trees",
		Usage: "list the trees of a coordinator",
		Flags: append(clientFlags(), &cli.StringFlag{Name: "tenant", Usage: "`NAME` of the tenant", DefaultText: "all"}),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return ask(c, func(ctx context.Context, s treepb.SchedulerClient) error {
				ctx, cancel := context.WithTimeout(ctx, callTimeout)
				defer cancel()
				list, err := s.ListTrees(ctx, &treepb.ListTreesRequest{Tenant: c.String("tenant")})
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "TENANT\tFUNCTION\tVMS\tDEPTH\tEPOCH")
				for _, t := range list.Trees {
					fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", t.Function.Tenant, t.Function.Id, t.Vms, t.Depth, t.Epoch)
				}
				return w.Flush()
			})
		},
	}
}

func treeCommand() *cli.Command {
	return &cli.Command{
		Name:      "tree",
		Usage:     "draw the tree of a function",
		ArgsUsage: "FUNCTION",
		Flags:     append(clientFlags(), tenantFlag()),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("one FUNCTION is needed")
			}
			return ask(c, func(ctx context.Context, s treepb.SchedulerClient) error {
				ctx, cancel := context.WithTimeout(ctx, callTimeout)
				defer cancel()
				t, err := s.GetTree(ctx, &treepb.GetTreeRequest{Function: &treepb.Function{Tenant: c.String("tenant"), Id: c.Args().First()}})
				if err != nil {
					return err
				}
				return draw(c.App.Writer, t)
			})
		},
	}
}

func watchCommand() *cli.Command {
	return &cli.Command{
		Name:      "watch",
		Usage:     "print the changes of a function's tree, or of all trees, as they come",
		ArgsUsage: "[FUNCTION]",
		Flags:     append(clientFlags(), tenantFlag()),
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usagef("one FUNCTION at most")
			}
			r := &treepb.WatchRequest{}
			if c.NArg() == 1 {
				r.Function = &treepb.Function{Tenant: c.String("tenant"), Id: c.Args().First()}
			}
			return ask(c, func(ctx context.Context, s treepb.SchedulerClient) error {
				stream, err := s.Watch(ctx, r)
				if err != nil {
					return err
				}
				for {
					change, err := stream.Recv()
					switch {
					case ctx.Err() != nil:
						return nil //nolint:nilerr // a signal ends it
					case err != nil:
						return err
					}
					if _, err := fmt.Fprintln(c.App.Writer, line(change)); err != nil {
						return err
					}
				}
			})
		},
	}
}

// line says a change in one line.
func line(c *treepb.Change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %d", c.GetFunction().GetTenant(), c.GetFunction().GetId(), c.Epoch)
	if c.Joined != "" {
		fmt.Fprintf(&b, " +%s", c.Joined)
	}
	if c.Left != "" {
		fmt.Fprintf(&b, " -%s", c.Left)
	}
	for _, m := range c.Moves {
		fmt.Fprintf(&b, " %s/%d:%s>%s", m.Vm, m.Stripe, orOrigin(m.OldUpstream), orOrigin(m.NewUpstream))
	}
	return b.String()
}

func orOrigin(vm string) string {
	if vm == "" {
		return "origin"
	}
	return vm
}
