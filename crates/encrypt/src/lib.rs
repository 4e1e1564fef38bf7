#![doc = "Work in progress."]
