"""Programs that build and check the project. The package never imports them."""
