"""A store kept in order: is it whole, and what in it does nothing need?"""
