"""What speaks for and against a driver's install and a reboot into it. One module for each question; all of it pure."""
