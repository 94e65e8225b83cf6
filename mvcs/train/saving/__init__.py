"""From a state that is handed over to commits beside the running loop, and back to the loop."""
