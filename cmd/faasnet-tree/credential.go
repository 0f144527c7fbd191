package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/peer/identity"
)

func credentialCommand() *cli.Command {
	return &cli.Command{
		Name:  "credential",
		Usage: "print a join credential, with which a VM shows whose it is",
		Description: `The key is the operator's, not the coordinator's: keep it where credentials are
made, and give coordinators only its public half, which "faasnet-tree key FILE"
prints, by --credential-keys.`,
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "key-file", Usage: "`FILE` with the private key, made by the command key"},
			&cli.StringFlag{Name: "tenant", Usage: "`NAME` of the tenant"},
			&cli.StringFlag{Name: "vm", Usage: "`NAME` of the VM; without it the credential is good for every VM of the tenant"},
			&cli.DurationFlag{Name: "ttl", Usage: "`TIME` for which it is good", Value: 24 * time.Hour},
		},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			if c.Path("key-file") == "" || c.String("tenant") == "" {
				return usagef("--key-file and --tenant are needed")
			}
			if c.Duration("ttl") <= 0 {
				return usagef("--ttl is not above 0")
			}
			key, err := readKey(c.Path("key-file"))
			if err != nil {
				return err
			}
			text, err := identity.Sign(key, identity.Claims{
				Use: identity.Join, Tenant: c.String("tenant"), VM: c.String("vm"), Expires: time.Now().Add(c.Duration("ttl")),
			})
			if err != nil {
				return usageError{err}
			}
			_, err = fmt.Fprintln(c.App.Writer, text)
			return err
		},
	}
}

func keyCommand() *cli.Command {
	return &cli.Command{
		Name:      "key",
		Usage:     "print the public half of the Ed25519 key in FILE, which is made if absent",
		ArgsUsage: "FILE",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("one FILE is needed")
			}
			key, err := loadKey(c.Args().First())
			if err != nil {
				return err
			}
			p, err := publicPEM(key)
			if err != nil {
				return err
			}
			_, err = c.App.Writer.Write(p)
			return err
		},
	}
}
