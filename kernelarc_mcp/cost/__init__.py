"""What a search cost: tokens and money, with what is not known told as such."""
